package sparse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/internal/transform"
)

const laneShift = 2

// sample is a chunk with changes, and the tables that it would have.
type sample struct {
	spec        transform.Spec
	target, ref []byte
	contexts    []uint8
	contextMap  []uint8
	clusters    []uint8
	tables      *model.Tables
}

// newSample makes a chunk of n lane values of which about share change, more often in low contexts.
func newSample(t testing.TB, n, width int, share float64, seed uint64) *sample {
	rng := testkit.Rand(seed)
	s := &sample{spec: transform.Spec{Width: width, Predictor: transform.PredictReference}}
	if width == 16 {
		s.spec.Float, s.spec.ExpBits, s.spec.MantBits = true, 8, 7
		s.spec.ContextPart, s.spec.ExpBase = transform.ContextExponent, 100
	} else {
		s.spec.Float, s.spec.ExpBits, s.spec.MantBits = true, 8, 23
		s.spec.ContextPart, s.spec.ExpBase = transform.ContextExponent, 100
	}
	s.target, s.ref = make([]byte, n*width/8), make([]byte, n*width/8)
	for i := range n {
		e := 110 + rng.IntN(8)
		v := uint64(e)<<s.spec.MantBits | rng.Uint64N(1<<s.spec.MantBits) | rng.Uint64N(2)<<(width-1)
		x := v
		if rng.Float64() < share*float64(118-e)/4 {
			x += 1 + rng.Uint64N(3)*rng.Uint64N(40)
		}
		testkit.PutLane(s.ref, i, width, v)
		testkit.PutLane(s.target, i, width, x)
	}
	ix := make([]uint16, n)
	s.spec.Tokens(ix, s.target, s.ref)
	var h model.Histogram
	h.Reset(32, s.spec.Alphabet())
	h.Add(ix)
	s.tables = model.Build(&h, model.ParamSpec{ContextPart: 1, A: s.spec.Alphabet()})
	if s.tables.Parametric { // what a small tensor would have; sparse chunks need own tables
		s.tables = ownTables(t, s.spec.Alphabet())
	}
	s.clusters = make([]uint8, n, n+Slack)
	s.spec.Clusters(s.clusters, s.ref, s.tables.ContextMap)
	return s
}

// ownTables are read from a side string that says little.
func ownTables(t testing.TB, tokens int) *model.Tables {
	var h model.Histogram
	h.Reset(32, tokens)
	for c := range 32 {
		for token := range tokens {
			h.AddCount(c, token, uint64(1+1000/(1+token)))
		}
		h.AddCount(c, 0, 50000)
	}
	tables := model.Build(&h, model.ParamSpec{ContextPart: 1, A: tokens})
	require.False(t, tables.Parametric)
	return tables
}

func (s *sample) encode(lanes uint) ([]byte, bool) {
	var m Model
	m.Init(s.tables)
	changed, ok := Changed(nil, s.target, s.ref, s.spec.Width, len(s.clusters))
	if !ok || len(changed) == 0 {
		return nil, false
	}
	var scratch Scratch
	return m.Append(nil, &Chunk{
		Spec: &s.spec, Target: s.target, Ref: s.ref, Clusters: s.clusters, Changed: changed, Lanes: func(int) uint { return lanes },
	}, &scratch, laneShift), true
}

func (s *sample) decode(body []byte) ([]byte, error) {
	var m Model
	m.InitDecoder(s.tables)
	var scratch Scratch
	dst := bytes.Repeat([]byte{0xa5}, len(s.target))
	err := m.Decode(dst, s.ref, s.clusters, &s.spec, body[1:], 1<<(2*(body[0]>>laneShift)), &scratch)
	return dst, err
}

func TestRoundTrip(t *testing.T) {
	bodies := map[string][]byte{}
	testkit.EachKernel(t, func(t *testing.T) {
		for _, width := range []int{16, 32} {
			for _, n := range []int{1, 2, 63, 64, 65, 200, 5000, 1 << 18} {
				for _, share := range []float64{0.0005, 0.01, 0.1, 1} {
					for _, lanes := range []uint{0, 1, 2, 3} {
						if n == 1<<18 && (lanes != 1 || share == 1) {
							continue
						}
						s := newSample(t, n, width, share, uint64(n))
						body, ok := s.encode(lanes)
						if !ok {
							continue
						}
						name := fmt.Sprint(width, n, share, lanes)
						if want, seen := bodies[name]; seen {
							require.Equal(t, want, body, "the same bytes from all kernels: %s", name)
						}
						bodies[name] = body
						got, err := s.decode(body)
						require.NoError(t, err, name)
						require.True(t, bytes.Equal(s.target, got), name)

						inPlace := bytes.Clone(s.ref)
						var m Model
						m.InitDecoder(s.tables)
						require.NoError(t, m.Decode(inPlace, inPlace, s.clusters, &s.spec, body[1:], 1<<(2*lanes), new(Scratch)))
						require.True(t, bytes.Equal(s.target, inPlace), name)
					}
				}
			}
		}
	})
	assert.Greater(t, len(bodies), 100)
}

// Few changes cost little: near to what is known about where they are.
func TestSize(t *testing.T) {
	s := newSample(t, 1<<18, 16, 0.003, 5)
	body, ok := s.encode(0)
	require.True(t, ok)
	changed, _ := Changed(nil, s.target, s.ref, 16, 1<<18)
	var perCluster, all [64]uint64
	for _, c := range s.clusters {
		all[c]++
	}
	for _, p := range changed {
		perCluster[s.clusters[p]]++
	}
	bits := uint64(0) // of the places
	for c := range all {
		if all[c] > 0 {
			bits += model.XLog(all[c]) - model.XLog(perCluster[c]) - model.XLog(all[c]-perCluster[c])
		}
	}
	values := len(changed) * 13 / 2 / 8 // about 6 bits each
	assert.Less(t, len(body), int(bits>>19)*103/100+values+100)
}

func TestChanged(t *testing.T) {
	testkit.EachKernel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, width := range []int{16, 32} {
			for range 200 {
				n := rng.IntN(700)
				a := make([]byte, n*width/8)
				for i := range a {
					a[i] = byte(rng.Uint32())
				}
				b := bytes.Clone(a)
				var want []uint32
				for i := range n {
					if rng.IntN(9) == 0 {
						b[(i*width+rng.IntN(width))/8] ^= 1 << rng.IntN(8)
						want = append(want, uint32(i))
					}
				}
				got, ok := Changed(nil, a, b, width, n)
				require.True(t, ok)
				require.Equal(t, len(want), len(got))
				for i := range want {
					require.Equal(t, want[i], got[i])
				}
				if len(want) > 0 {
					_, ok = Changed(nil, a, b, width, len(want)-1)
					require.False(t, ok)
				}
				_, ok = Changed(nil, a, b, width, len(want))
				require.True(t, ok)
			}
		}
	})
}

func TestRanksAndPlaces(t *testing.T) {
	testkit.EachKernel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range 300 {
			n, k := 1+rng.IntN(2000), 1+rng.IntN(64)
			clusters := make([]uint8, n)
			places := make([][]uint32, k)
			for i := range clusters {
				c := uint8(rng.IntN(k))
				if rng.IntN(3) == 0 {
					c = 0
				}
				clusters[i] = c
				places[c] = append(places[c], uint32(i))
			}
			var l lanes
			l.init(clusters, k, nil)
			for c, all := range places {
				require.EqualValues(t, len(all), l.total[c])
				var ranks, want []uint32
				for rank, p := range all {
					if rng.IntN(5) == 0 {
						ranks, want = append(ranks, uint32(rank)), append(want, p)
					}
				}
				got := make([]uint32, len(want))
				l.places(got, ranks, uint8(c))
				require.Equal(t, want, append([]uint32(nil), got...))
				l.ranks(got, want, uint8(c))
				require.Equal(t, ranks, append([]uint32(nil), got...))
			}
		}
	})
}

// Any byte of a body changed, and any end cut off: an error, or the changed value; never more than that.
func TestHostileBodies(t *testing.T) {
	for _, width := range []int{16, 32} {
		s := newSample(t, 3000, width, 0.02, 9)
		body, ok := s.encode(1)
		require.True(t, ok)
		failed := 0
		for i := range body {
			for bit := range 8 {
				damaged := bytes.Clone(body)
				damaged[i] ^= 1 << bit
				if damaged[0]>>laneShift > 3 || i == 0 && bit < laneShift {
					continue
				}
				got, err := s.decode(damaged)
				if err != nil {
					failed++
				} else {
					require.NotEqual(t, s.target, got, "byte %d, bit %d", i, bit)
				}
			}
			_, err := s.decode(body[:max(i, 1)])
			require.Error(t, err, "cut to %d of %d", i, len(body))
		}
		assert.Greater(t, failed, 5*len(body))
		_, err := s.decode(append(bytes.Clone(body), 0))
		assert.Error(t, err)
	}
}

// A chunk without changes is no sparse chunk, and what cannot change does not.
func TestImpossibleCounts(t *testing.T) {
	s := newSample(t, 500, 16, 0.5, 3)
	var m Model
	m.Init(s.tables)
	var scratch Scratch
	scratch.lanes.init(s.clusters, len(m.values), nil)
	counts := func(changed func(cluster int, total uint32) int64) []byte {
		var w bitWriter
		for k := range m.values {
			if total := scratch.lanes.total[k]; total > 0 {
				w.count(changed(k, total), m.expected(k, total))
			}
		}
		return append([]byte{0, 0, 0, 0x80, 0, 0}, w.finish()...) // no words, one lane
	}
	try := func(body []byte) error { _, err := s.decode(append([]byte{0}, body[1:]...)); return err }
	for name, c := range map[string]struct {
		changed func(int, uint32) int64
		want    error
	}{
		"none":       {func(int, uint32) int64 { return 0 }, errNone},
		"too many":   {func(_ int, total uint32) int64 { return int64(total) + 1 }, errCount},
		"negative":   {func(int, uint32) int64 { return -1 }, errCount},
		"no symbols": {func(int, uint32) int64 { return 1 }, errWords},
	} {
		assert.ErrorIs(t, try(counts(c.changed)), c.want, name)
	}
	assert.ErrorIs(t, try([]byte{0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0}), errCount, "a count of endless zeros")

	m.values[0] = nil
	stream := bitReader{in: counts(func(int, uint32) int64 { return 1 })[6:]}
	_, err := m.readCounts(&stream, &scratch)
	assert.ErrorIs(t, err, errCluster)
}

func FuzzDecode(f *testing.F) {
	s := newSample(f, 2000, 16, 0.03, 7)
	for lanes := range uint(4) {
		if body, ok := s.encode(lanes); ok {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || body[0]>>laneShift > 3 {
			return
		}
		got, err := s.decode(body)
		if err == nil { // one value, one spelling
			other := *s
			other.target = got
			again, ok := other.encode(uint(body[0] >> laneShift))
			require.True(t, ok)
			require.Equal(t, body[1:], again[1:])
		}
	})
}

func BenchmarkSparse(b *testing.B) {
	for _, share := range []float64{0.0005, 0.003, 0.02} {
		s := newSample(b, 1<<18, 16, share, 5)
		body, _ := s.encode(1)
		b.Run(fmt.Sprintf("encode %g", share), func(b *testing.B) {
			b.SetBytes(1 << 19)
			var m Model
			m.Init(s.tables)
			var scratch Scratch
			var list []uint32
			var dst []byte
			for b.Loop() {
				list, _ = Changed(list, s.target, s.ref, 16, 1<<18)
				dst = m.Append(dst[:0], &Chunk{
					Spec: &s.spec, Target: s.target, Ref: s.ref, Clusters: s.clusters, Changed: list, Lanes: func(int) uint { return 1 },
				}, &scratch, laneShift)
			}
		})
		b.Run(fmt.Sprintf("decode %g", share), func(b *testing.B) {
			b.SetBytes(1 << 19)
			var m Model
			m.InitDecoder(s.tables)
			var scratch Scratch
			dst := make([]byte, len(s.target))
			for b.Loop() {
				if err := m.Decode(dst, s.ref, s.clusters, &s.spec, body[1:], 4, &scratch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
