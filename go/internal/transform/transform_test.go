package transform

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/testkit"
)

// checkSpec splits, compares with the oracle, and joins, in pieces of the given length.
func checkSpec(t *testing.T, s Spec, target, ref []byte, piece int) {
	t.Helper()
	require.True(t, s.Valid())
	lane := s.Width / 8
	m := len(target) / lane
	if s.Predictor == 0 {
		ref = nil
	}
	want := oracleSplit(&s, m, target, ref)

	var raw RawWriter
	raw.Reset(nil, nil)
	ix, tokenIx := make([]uint16, m), make([]uint16, m)
	seen := false
	pieces(m, piece, func(a, b int) {
		x, r := clipped(target, &s, a, b), clipped(ref, &s, a, b)
		any := s.Split(ix[a:b:b], x, r, &raw)
		seen = seen || any
		assert.Equal(t, any, s.Tokens(tokenIx[a:b:b], x, r))
	})
	plane, tail := raw.Finish()
	require.True(t, slices.Equal(want.ix, ix))
	require.True(t, slices.Equal(want.ix, tokenIx))
	require.Equal(t, string(want.plane), string(plane))
	require.Equal(t, string(want.tail), string(tail))
	require.Equal(t, want.any, seen)

	z, wantZ := make([]uint64, m), make([]uint64, m)
	s.Zs(z, target, ref)
	contextMap := make([]uint8, s.Contexts())
	for c := range contextMap {
		contextMap[c] = uint8(7 * c % 64)
	}
	tokens, wantClusters := make([]uint8, m), make([]uint8, m)
	for i, v := range ix {
		r := uint64(0)
		if ref != nil {
			r = testkit.Lane(ref, i, s.Width)
		}
		wantZ[i] = oracleZ(&s, testkit.Lane(target, i, s.Width), r)
		tokens[i], wantClusters[i] = uint8(v), contextMap[v>>8]
	}
	require.True(t, slices.Equal(wantZ, z))

	clusters := testkit.Guard(m, 3, 0xcc)
	pieces(m, piece, func(a, b int) {
		s.Clusters(clusters.Bytes()[a:b:b], clipped(ref, &s, a, b), contextMap)
	})
	clusters.Check(t)
	require.Equal(t, string(wantClusters), string(clusters.Bytes()))

	for _, inPlace := range []bool{false, true} {
		dst := testkit.Guard(m*lane, 1, 0xdd)
		out, r := dst.Bytes(), ref
		if inPlace {
			copy(out, ref)
			r = out
			if ref == nil {
				r = nil // predictor 0
			}
		}
		var reader RawReader
		reader.Init(clip(plane), clip(tail))
		pieces(m, piece, func(a, b int) {
			require.True(t, s.Join(clipped(out, &s, a, b), clipped(r, &s, a, b), tokens[a:b:b], &reader))
		})
		require.True(t, reader.Done())
		require.Equal(t, string(target), string(out))
		dst.Check(t)
	}
}

// clipped is the part of b with lane values from .. to, whose capacity ends there; nil stays nil.
func clipped(b []byte, s *Spec, from, to int) []byte {
	part := sub(b, s, from, to)
	return part[:len(part):len(part)]
}

// clip copies b to memory that ends where b ends.
func clip(b []byte) []byte { return append(make([]byte, 0, len(b)), b...)[:len(b):len(b)] }

func pieces(m, piece int, f func(a, b int)) {
	for a := 0; a < m; a += piece {
		f(a, min(a+piece, m))
	}
}

// patterns is a pair of m lane values: edges against edges, random bits, small steps, equal values.
func patterns(k kind, m int, seed uint64) (target, ref []byte) {
	rng := testkit.Rand(seed)
	edges := testkit.Edges(k.width, k.float, k.expBits, k.mantBits)
	target, ref = make([]byte, m*k.width/8), make([]byte, m*k.width/8)
	for i := range m {
		x, r := rng.Uint64(), rng.Uint64()
		switch rng.IntN(5) {
		case 0:
			x = edges[rng.IntN(len(edges))]
			r = edges[rng.IntN(len(edges))]
		case 1:
			r = edges[rng.IntN(len(edges))]
			x = r + uint64(rng.IntN(9)) - 4
		case 2:
			x = r
		case 3:
			x = r + (rng.Uint64()>>(rng.IntN(64)))*(1-2*rng.Uint64N(2))
		}
		testkit.PutLane(target, i, k.width, x)
		testkit.PutLane(ref, i, k.width, r)
	}
	return target, ref
}

func eachKind(t *testing.T, f func(t *testing.T, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

// Every allowed spec, lengths around block borders, whole and in odd pieces.
func TestSplitJoin(t *testing.T) { testkit.EachKernel(t, testSplitJoin) }

func testSplitJoin(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		for _, m := range []int{1, 2, 64, 500, 2048 + 17} {
			target, ref := patterns(k, m, uint64(m))
			for _, s := range specs(k, target) {
				t.Run(fmt.Sprintf("%s/%d", s.name(), m), func(t *testing.T) {
					checkSpec(t, s, target, ref, m)
					checkSpec(t, s, target, ref, 100)
					if m < 100 {
						checkSpec(t, s, target, ref, 1)
					}
				})
			}
		}
	})
}

// The values a trained model has, where the hot kernels live.
func TestTraining(t *testing.T) { testkit.EachKernel(t, testTraining) }

func testTraining(t *testing.T) {
	for _, k := range kinds[:4] {
		t.Run(k.name, func(t *testing.T) {
			target, ref := testkit.Float(9000, k.width, k.expBits, k.mantBits, 0.01, 1)
			for _, s := range specs(k, target) {
				t.Run(s.name(), func(t *testing.T) { checkSpec(t, s, target, ref, 4096) })
			}
		})
	}
}

// Every length from 0 on, so that every combination of a block and a rest is met, and a second call that starts with pending bits.
func TestLengths(t *testing.T) { testkit.EachKernel(t, testLengths) }

func testLengths(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		target, ref := patterns(k, 600, 5)
		lane := k.width / 8
		for _, s := range specs(k, target) {
			r := ref
			if s.Predictor == 0 {
				r = nil
			}
			whole := oracleSplit(&s, 600, target, r)
			for m := 0; m <= 300; m++ {
				if m > 140 && m%17 != 0 || testing.Short() && m%5 != 0 {
					continue
				}
				checkSpec(t, s, target[:m*lane], ref[:m*lane], max(m-7, 1))
				if m%6 != 0 {
					continue
				}
				var raw RawWriter
				raw.Reset(nil, nil)
				ix := make([]uint16, 600)
				s.Split(ix[:m], target, r, &raw)
				s.Split(ix[m:], target[m*lane:], sub(r, &s, m, 600), &raw)
				plane, tail := raw.Finish()
				require.Equal(t, string(whole.plane), string(plane))
				require.Equal(t, string(whole.tail), string(tail))
			}
		}
	})
}

// All 2^16 targets against chosen references, for both 16-bit kinds.
func TestExhaustive16(t *testing.T) { testkit.EachKernel(t, testExhaustive16) }

func testExhaustive16(t *testing.T) {
	for _, k := range kinds {
		if k.width != 16 {
			continue
		}
		refs := []uint64{0x3c3f, 0x8000, 0, 0xbf80, 0x7f80, 0xffff, 0x0001, 0x7c01}
		if testing.Short() {
			refs = refs[:2]
		}
		for _, r := range refs {
			target, ref := make([]byte, 2<<16), make([]byte, 2<<16)
			for x := range 1 << 16 {
				testkit.PutLane(target, x, 16, uint64(x))
				testkit.PutLane(ref, x, 16, r)
			}
			for _, s := range specs(k, target) {
				if s.Map == MapHybrid && s.K == 0 && (s.Predictor == PredictNone || s.ContextPart == ContextExponent || !s.Float) {
					checkSpec(t, s, target, ref, 1<<16)
					if s.Predictor == PredictReference {
						checkSpec(t, s, ref, target, 1<<16)
					}
				}
			}
		}
	}
}

func TestExhaustive8(t *testing.T) { testkit.EachKernel(t, testExhaustive8) }

func testExhaustive8(t *testing.T) {
	for _, k := range kinds {
		if k.width != 8 {
			continue
		}
		target, ref := make([]byte, 1<<16), make([]byte, 1<<16)
		for i := range target {
			target[i], ref[i] = byte(i), byte(i>>8)
		}
		for _, s := range specs(k, target) {
			checkSpec(t, s, target, ref, 1<<16)
		}
	}
}

// The worked values of FORMAT.md section 8.
func TestWorkedTokens(t *testing.T) {
	for _, v := range []struct{ y, token, n, tail uint64 }{
		{0, 0, 0, 0}, {1, 1, 0, 0}, {7, 7, 0, 0}, {8, 8, 1, 0}, {9, 8, 1, 1}, {13, 10, 1, 1}, {100, 22, 4, 4}, {65535, 59, 13, 8191},
	} {
		token, n := hybridToken(v.y)
		assert.Equal(t, v.token, uint64(token))
		assert.Equal(t, v.n, uint64(n))
		assert.Equal(t, v.tail, v.y&(1<<n-1))
		h := &hybridTables[2]
		assert.Equal(t, v.n, uint64(h.n[token]))
		assert.Equal(t, v.y, h.base[token]+v.tail)
	}
}

func TestUnchanged(t *testing.T) { testkit.EachKernel(t, testUnchanged) }

func testUnchanged(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		for m := range 200 {
			_, ref := patterns(k, m, 9)
			for _, s := range specs(k, ref) {
				if s.Predictor != 1 {
					continue
				}
				ix := make([]uint16, m)
				var raw RawWriter
				raw.Reset(nil, nil)
				assert.False(t, s.Split(ix, ref, ref, &raw))
				assert.False(t, s.Tokens(ix, ref, ref))
				for i := range m { // one bit anywhere must show
					if i%17 == 0 || i == m-1 {
						target := clip(ref)
						target[(i+1)*k.width/8-1] ^= 1
						assert.True(t, s.Split(ix, target, ref, &raw))
						assert.True(t, s.Tokens(ix, target, ref))
					}
				}
			}
		}
	})
}

// Raw bits that end early, by any number of bytes, are never read over and never accepted.
func TestTruncatedRaw(t *testing.T) { testkit.EachKernel(t, testTruncatedRaw) }

func testTruncatedRaw(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		target, ref := patterns(k, 300, 11)
		for _, s := range specs(k, target) {
			want := oracleSplit(&s, 300, target, ref)
			tokens := make([]uint8, 300)
			for i, v := range want.ix {
				tokens[i] = uint8(v)
			}
			dst := make([]byte, len(target))
			try := func(plane, tail []byte) bool {
				var raw RawReader
				raw.Init(clip(plane), clip(tail))
				ok := s.Join(dst, ref, tokens, &raw)
				if !ok { // and stays so
					require.False(t, s.Join(dst, ref, tokens, &raw))
				}
				return ok && raw.Done()
			}
			require.True(t, try(want.plane, want.tail))
			for n := range want.tail {
				require.False(t, try(want.plane, want.tail[:n]))
			}
			for n := range want.plane {
				if n < 20 || n > len(want.plane)-20 || n%50 == 0 {
					require.False(t, try(want.plane[:n], want.tail))
				}
			}
			require.False(t, try(append(clip(want.plane), 0), want.tail))
			require.False(t, try(want.plane, append(clip(want.tail), 0)))
			for bit := want.tailBits; bit < 8*len(want.tail); bit++ { // padding must be 0
				bad := clip(want.tail)
				bad[bit/8] |= 1 << (bit % 8)
				require.False(t, try(want.plane, bad))
			}
		}
	})
}

// Tokens outside the alphabet, and values of map 1 beyond the width, are refused whatever the raw bits are.
func TestBadTokens(t *testing.T) { testkit.EachKernel(t, testBadTokens) }

func testBadTokens(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		target, ref := patterns(k, 100, 12)
		for _, s := range specs(k, target) {
			if s.Map == MapDirect {
				continue
			}
			for token := 0; token < 256; token++ {
				for _, at := range []int{0, 50, 99} {
					tokens := make([]uint8, 100)
					tokens[at] = uint8(token)
					dst := testkit.Guard(len(target), 0, 0)
					var raw RawReader
					raw.Init(make([]byte, 100*8), make([]byte, 100*8))
					good := token < s.Alphabet()
					if s.Map == MapLeading && token > 0 {
						good = good && uint64(token)-1+s.Base < 1<<(s.Width-s.T)
					}
					require.Equal(t, good, s.Join(dst.Bytes(), ref, tokens, &raw), "%s %d", s.name(), token)
					dst.Check(t)
				}
			}
		}
	})
	s := Spec{Width: 16, Float: true, ExpBits: 8, MantBits: 7, Map: MapLeading, T: 6, Base: 1<<10 - 2, A: 256}
	for token, good := range map[uint8]bool{0: true, 1: true, 2: true, 3: false, 255: false} {
		var raw RawReader
		raw.Init(nil, make([]byte, 10))
		assert.Equal(t, good, s.Join(make([]byte, 2), nil, []uint8{token}, &raw), token)
	}
	s.Base = 1<<63 - 1
	var raw RawReader
	raw.Init(nil, make([]byte, 10))
	assert.False(t, s.Join(make([]byte, 2), nil, []uint8{1}, &raw))
}

func TestPadding(t *testing.T) {
	for bits := range 17 {
		var raw RawReader
		raw.Init(nil, []byte{0xff, 0x0f})
		raw.tailPos = bits
		assert.Equal(t, bits >= 12 && bits <= 16, raw.Done(), bits)
	}
}

func TestPlaneValues(t *testing.T) {
	tokens := []uint8{0, 1, 255, 0, 0, 128}
	assert.Equal(t, 3, PlaneValues(MapLeading, tokens))
	assert.Equal(t, 6, PlaneValues(MapHybrid, tokens))
	assert.Zero(t, PlaneValues(MapLeading, nil))
}

func TestValid(t *testing.T) {
	bf16 := Spec{Width: 16, Float: true, ExpBits: 8, MantBits: 7, Predictor: 1, ContextPart: 1}
	require.True(t, bf16.Valid())
	for name, change := range map[string]func(s *Spec){
		"width":              func(s *Spec) { s.Width = 24 },
		"float fields":       func(s *Spec) { s.MantBits = 8 },
		"predictor":          func(s *Spec) { s.Predictor = 2 },
		"map":                func(s *Spec) { s.Map = 3 },
		"direct":             func(s *Spec) { s.Map = MapDirect },
		"leading":            func(s *Spec) { s.Map, s.T, s.A = MapLeading, 6, 20 },
		"K":                  func(s *Spec) { s.K = 4 },
		"K too large":        func(s *Spec) { s.K = 16 },
		"context":            func(s *Spec) { s.ContextPart = 3 },
		"byte context":       func(s *Spec) { s.ContextPart = 2 },
		"context without":    func(s *Spec) { s.Predictor = 0 },
		"integer's exponent": func(s *Spec) { s.Float, s.ExpBits, s.MantBits = false, 0, 0 },
	} {
		s := bf16
		change(&s)
		assert.False(t, s.Valid(), name)
	}
}

// Split and Join work without allocating when the writer was prepared.
func TestNoAllocation(t *testing.T) { testkit.EachKernel(t, testNoAllocation) }

func testNoAllocation(t *testing.T) {
	target, ref := testkit.Float(4096, 16, 8, 7, 0.01, 1)
	s := Spec{Width: 16, Float: true, ExpBits: 8, MantBits: 7, Predictor: 1, ContextPart: 1, ExpBase: 100}
	ix, tokens, dst := make([]uint16, 4096), make([]uint8, 4096), make([]byte, len(target))
	contextMap := make([]uint8, 32)
	var w RawWriter
	w.Reset(nil, nil)
	w.Reserve(&s, 4096)
	var r RawReader
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		w.Clear()
		s.Split(ix, target, ref, &w)
		for i, v := range ix {
			tokens[i] = uint8(v)
		}
		r.Init(w.Finish())
		s.Clusters(dst[:4096], ref, contextMap)
		if !s.Join(dst, ref, tokens, &r) {
			panic("join")
		}
	}))
}

// The check of eight tokens at a time against the plain one, for every last token.
func TestLastToken(t *testing.T) {
	rng := testkit.Rand(3)
	for last := 1; last < 256; last++ {
		s := Spec{Width: 16, Float: true, ExpBits: 8, MantBits: 7, Map: MapLeading, T: 6, A: last + 1}
		require.Equal(t, last, s.lastToken())
		for range 20 {
			tokens := make([]uint8, 1+rng.IntN(40))
			for i := range tokens {
				tokens[i] = uint8(rng.IntN(last + 1))
			}
			require.False(t, s.badTokens(tokens))
			if last < 255 {
				tokens[rng.IntN(len(tokens))] = uint8(last + 1 + rng.IntN(255-last))
				require.True(t, s.badTokens(tokens))
			}
		}
	}
}

func TestSparse(t *testing.T) { testkit.EachKernel(t, testSparse) }

// Mostly unchanged values: few raw bits for many tokens, so that nearly all of them are read from the copies of the ends.
func testSparse(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		const m = 7000
		changed, ref := patterns(k, m, 21)
		for _, every := range []int{3, 100, 2500} {
			target := slices.Clone(ref)
			for i := 1; i < m; i += every {
				testkit.PutLane(target, i, k.width, testkit.Lane(changed, i, k.width))
			}
			for _, s := range specs(k, target) {
				if s.Predictor == PredictReference {
					checkSpec(t, s, target, ref, m)
					checkSpec(t, s, target, ref, 1000)
				}
			}
			// Alone, most values being zero.
			for i := range m {
				if i%every != 0 {
					testkit.PutLane(target, i, k.width, 0)
				}
			}
			for _, s := range specs(k, target) {
				if s.Predictor == PredictNone {
					checkSpec(t, s, target, ref, m)
				}
			}
		}
	})
}
