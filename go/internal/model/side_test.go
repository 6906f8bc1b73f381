package model

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/sidecoder"
)

func tablesOf(p, tableLog int, contextMap []uint8, codes [][]uint8) *Tables {
	t := newTables(contextMap, len(codes), len(codes[0]), p, tableLog)
	for k, q := range codes {
		copy(t.Codes[k], q)
		normalize(t.Freq[k], q, p, tableLog)
	}
	return t
}

func TestSideWorkedValues(t *testing.T) {
	for _, c := range []struct {
		p          int
		contextMap []uint8
		codes      [][]uint8
		side       string
	}{
		{1, []uint8{0}, [][]uint8{{0, 29, 0, 5, 6, 7, 0, 0}}, "e4bd62a84035"},
		{1, []uint8{0, 0, 1, 1, 0, 2, 2, 1}, [][]uint8{
			{0, 29, 20, 20, 11, 0, 0, 1}, {0, 25, 29, 20, 0, 0, 1, 1}, {3, 0, 0, 0, 0, 0, 0, 29},
		}, "dbffbf20b36dd4aba247f3249ebe23fc7a89"},
		// A cluster that comes back.
		{2, []uint8{0, 0, 1, 0, 2, 2}, [][]uint8{
			{0, 30, 31, 0, 28, 12, 9, 0}, {1, 31, 30, 2, 28, 12, 0, 0}, {5, 5, 5, 5, 9, 1, 1, 30},
		}, "9d54b9566dca8280d8ab5ead191bc603dd670ca454"},
	} {
		want := tablesOf(c.p, 11, c.contextMap, c.codes)
		side := want.WriteSide()
		assert.Equal(t, c.side, hex.EncodeToString(side))
		got, err := ReadSide(side, len(c.contextMap), len(c.codes[0]), 11)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// randomTables are valid, but not what the canonical encoder would write.
func randomTables(rng *rand.Rand) *Tables {
	contexts := []int{1, 32, 256}[rng.IntN(3)]
	clusters := 1
	contextMap := make([]uint8, contexts)
	for c := 1; c < contexts; c++ {
		switch rng.IntN(3) {
		case 0:
			contextMap[c] = contextMap[c-1]
		case 1:
			contextMap[c] = uint8(min(clusters, MaxClusters-1))
			clusters = min(clusters+1, MaxClusters)
		default:
			contextMap[c] = uint8(rng.IntN(clusters))
		}
	}
	p := 1 + rng.IntN(4)
	codes := make([][]uint8, clusters)
	tokens := 2 + rng.IntN(255)
	for k := range codes {
		codes[k] = make([]uint8, tokens)
		density := rng.Float64()
		for s := range codes[k] {
			if rng.Float64() < density {
				codes[k][s] = uint8(1 + rng.IntN(maxCode(p)))
			}
		}
		codes[k][rng.IntN(tokens)] = uint8(maxCode(p))
	}
	return tablesOf(p, 8+rng.IntN(5), contextMap, codes)
}

func TestSideRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	most := 0
	for range 200 {
		want := randomTables(rng)
		most = max(most, len(want.Freq))
		got, err := ReadSide(want.WriteSide(), len(want.ContextMap), len(want.Codes[0]), want.TableLog)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	assert.Equal(t, MaxClusters, most)
	for range 100 {
		spec, ix := randomCase(rng)
		want := Build(histogramOf(ix, spec.Contexts(), spec.A), spec)
		if want.Parametric {
			continue
		}
		want.Bits16, want.Total = 0, 0
		got, err := ReadSide(want.WriteSide(), spec.Contexts(), spec.A, want.TableLog)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestSideRejects(t *testing.T) {
	write := func(f func(e *sidecoder.Encoder, cx *sideContexts)) []byte {
		var e sidecoder.Encoder
		f(&e, new(sideContexts))
		return e.Finish()
	}
	code := func(e *sidecoder.Encoder, cx *sideContexts, codes ...uint8) { writeCodes(e, cx, codes, nil, 1) }

	// The number of clusters so far is 1: cluster 1 must be announced as new.
	_, err := ReadSide(write(func(e *sidecoder.Encoder, cx *sideContexts) {
		e.Raw(2, 0)
		e.Bit(&cx.same, 0)
		e.Bit(&cx.fresh, 0)
		e.Tree(cx.cluster[:], 6, 1)
	}), 32, 4, 11)
	assert.ErrorIs(t, err, errClusterAbove)

	for _, clusters := range []int{MaxClusters, MaxClusters + 1} {
		_, err = ReadSide(write(func(e *sidecoder.Encoder, cx *sideContexts) {
			e.Raw(2, 0)
			for c := 1; c < 256; c++ {
				if c < clusters {
					e.Bit(&cx.same, 0)
					e.Bit(&cx.fresh, 1)
				} else {
					e.Bit(&cx.same, 1)
				}
			}
			var prev []uint8
			for range clusters {
				codes := []uint8{1, 2, 0, 0}
				writeCodes(e, cx, codes, prev, 1)
				prev = codes
			}
		}), 256, 4, 11)
		if clusters > MaxClusters {
			assert.ErrorIs(t, err, errClusters)
		} else {
			assert.NoError(t, err)
		}
	}

	for name, codes := range map[string][]uint8{
		"first":  {uint8(maxCode(1) + 1), 0, 0, 0},
		"later":  {uint8(maxCode(1)), uint8(maxCode(1) + 1), 0, 0},
		"larger": {0, 1, 0, 255},
	} {
		_, err = ReadSide(write(func(e *sidecoder.Encoder, cx *sideContexts) {
			e.Raw(2, 0)
			code(e, cx, codes...)
		}), 1, 4, 11)
		assert.ErrorIs(t, err, errCode, name)
	}
	// A difference that goes below 1, to 0, and one that no two codes have.
	for _, m := range []uint32{5, 4, 255, 256, sidecoder.GammaMax} {
		_, err = ReadSide(write(func(e *sidecoder.Encoder, cx *sideContexts) {
			e.Raw(2, 0)
			code(e, cx, 5)
			e.Bit(&cx.zero[zeroContext([]uint8{5, 0}, nil, 1)], 1)
			e.Bit(&cx.repeat[0], 1)
			e.Bit(&cx.sign[0], 1)
			e.Gamma(&cx.step[0], m)
			e.Raw(32, 0)
		}), 1, 2, 11)
		assert.ErrorIs(t, err, errCode, m)
	}

	_, err = ReadSide(write(func(e *sidecoder.Encoder, cx *sideContexts) {
		e.Raw(2, 0)
		code(e, cx, 0, 0, 0, 0)
	}), 1, 4, 11)
	assert.ErrorIs(t, err, errEmptyTable)

	side := tablesOf(1, 11, []uint8{0}, [][]uint8{{1, 29, 3, 0}}).WriteSide()
	_, err = ReadSide(append(side, 0, 0, 0, 0), 1, 4, 11)
	assert.Error(t, err, "bytes after the end")
}

// Damage is found or gives other valid tables.
func TestSideDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	failed := 0
	for range 2000 {
		want := randomTables(rng)
		side := want.WriteSide()
		switch rng.IntN(3) {
		case 0:
			side = side[:rng.IntN(len(side))]
		case 1:
			side[rng.IntN(len(side))] ^= 1 << rng.IntN(8)
		case 2:
			for i := range side {
				side[i] = byte(rng.Uint32())
			}
		}
		tokens := len(want.Codes[0])
		got, err := ReadSide(side, len(want.ContextMap), tokens, want.TableLog)
		if err != nil {
			failed++
			continue
		}
		checkFrequencies(t, got, tokens)
	}
	assert.NotZero(t, failed)
}

func FuzzReadSide(f *testing.F) {
	f.Add([]byte{}, uint8(1), uint8(60), uint8(11))
	rng := rand.New(rand.NewPCG(8, 8))
	for range 3 {
		t := randomTables(rng)
		f.Add(t.WriteSide(), uint8(len(t.ContextMap)), uint8(len(t.Codes[0])), uint8(t.TableLog))
	}
	f.Fuzz(func(t *testing.T, side []byte, c, a, log uint8) {
		contexts := []int{1, 32, 256}[c%3]
		tokens := 2 + int(a)%255
		tableLog := 8 + int(log)%5
		tables, err := ReadSide(side, contexts, tokens, tableLog)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(tables.Freq), MaxClusters)
		checkFrequencies(t, tables, tokens)
		again, err := ReadSide(tables.WriteSide(), contexts, tokens, tableLog)
		require.NoError(t, err)
		require.Equal(t, tables, again)
	})
}
