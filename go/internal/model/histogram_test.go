package model

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func randomIndexes(rng *rand.Rand, n, contexts, tokens int) []uint16 {
	ix := make([]uint16, n)
	for i := range ix {
		ix[i] = uint16(rng.IntN(contexts)<<8 | min(int(rng.ExpFloat64()*5), tokens-1))
	}
	return ix
}

func checkCounts(t *testing.T, h *Histogram, ix []uint16, contexts, tokens int) {
	t.Helper()
	counts := denseCounts(ix, contexts, tokens)
	var want []cell
	for c, row := range counts {
		for s, n := range row {
			require.Equal(t, n, h.Count(c, s))
			if n > 0 {
				want = append(want, cell{uint16(c<<8 | s), uint32(n)})
			}
		}
	}
	require.Equal(t, uint64(len(ix)), h.Total())
	cells, total := h.list()
	require.Equal(t, uint64(len(ix)), total)
	require.Equal(t, len(want), len(cells))
	for i := range want {
		require.Equal(t, want[i], cells[i])
	}
}

// One histogram is used for many shapes, by the sparse and the dense path and both, with and without spilling.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h Histogram
	for i := range 60 {
		contexts := []int{1, 32, 256}[rng.IntN(3)]
		tokens := []int{2, 60, 124, 256}[rng.IntN(4)]
		h.Reset(contexts, tokens)
		require.Zero(t, h.Total())
		h.limit = spillLimit
		if i%3 == 0 {
			h.limit = 1 + rng.Uint64N(3000)
		}
		var all []uint16
		for range rng.IntN(4) {
			ix := randomIndexes(rng, rng.IntN(3)*rng.IntN(20000), contexts, tokens)
			h.Add(ix)
			all = append(all, ix...)
			if rng.IntN(2) == 0 {
				checkCounts(t, &h, all, contexts, tokens)
			}
		}
		for range rng.IntN(3) {
			c, s, n := rng.IntN(contexts), rng.IntN(tokens), rng.IntN(4000)
			h.AddCount(c, s, uint64(n))
			for range n {
				all = append(all, uint16(c<<8|s))
			}
		}
		checkCounts(t, &h, all, contexts, tokens)
	}
}

func TestHistogramMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a, b Histogram
	for range 30 {
		contexts := []int{1, 32, 256}[rng.IntN(3)]
		first := randomIndexes(rng, rng.IntN(2)*rng.IntN(9000), contexts, 60)
		second := randomIndexes(rng, rng.IntN(2)*rng.IntN(9000), contexts, 60)
		a.Reset(contexts, 60)
		b.Reset(contexts, 60)
		a.Add(first)
		b.Add(second)
		a.Merge(&b)
		checkCounts(t, &a, append(first, second...), contexts, 60)
		checkCounts(t, &b, second, contexts, 60)
		a.Merge(&b)
		a.Add(first)
		checkCounts(t, &a, append(append(append(first, second...), second...), first...), contexts, 60)
	}
}

// Counts beyond 32 bits: halved, rounding up, until the total is below 2^32.
func TestHistogramHalves(t *testing.T) {
	var h Histogram
	h.Reset(1, 60)
	h.AddCount(0, 3, 1<<32-2)
	h.AddCount(0, 9, 1)
	cells, total := h.list()
	assert.Equal(t, []cell{{3, 1<<32 - 2}, {9, 1}}, cells)
	assert.Equal(t, uint64(1<<32-1), total)

	h.AddCount(0, 5, 1)
	cells, total = h.list()
	assert.Equal(t, []cell{{3, 1<<31 - 1}, {5, 1}, {9, 1}}, cells)
	assert.Equal(t, uint64(1<<31+1), total)

	// 2^33 - 3 and three ones: once halved 2^32 - 1 and three ones, still too much.
	h.Reset(1, 60)
	h.AddCount(0, 0, 1<<33-3)
	for s := range 3 {
		h.AddCount(0, s+1, 1)
	}
	cells, total = h.list()
	assert.Equal(t, []cell{{0, 1 << 31}, {1, 1}, {2, 1}, {3, 1}}, cells)
	assert.Equal(t, uint64(1<<31+3), total)

	h.Reset(1, 60)
	h.AddCount(0, 1, 1<<60)
	h.AddCount(0, 2, 1<<40)
	tables := Build(&h, ParamSpec{A: 60})
	checkFrequencies(t, tables, 60)
	assert.Equal(t, uint16(1), tables.Freq[0][2])
}

func TestEstimate(t *testing.T) {
	// Context 0: two tokens once each, 2 bits; context 1: one token four times, nothing. 5 bits of tails. 3 cells.
	h := histogramOf([]uint16{7, 8, 0x105, 0x105, 0x105, 0x105}, 32, 60)
	assert.Equal(t, uint64((2+5)*65536+3*8*65536), EstimateBits16(h, 5, 6, 6))
	// Scaled to 100 values: floor(7 * 65536 * 100 / 6), the cells stay.
	assert.Equal(t, uint64(7*65536*100/6+3*8*65536), EstimateBits16(h, 5, 100, 6))
	// Three values of which one differs: xlog(3) - xlog(2) - 0.
	h = histogramOf([]uint16{1, 1, 2}, 1, 60)
	assert.Equal(t, uint64(311616-131072+2*8*65536), EstimateBits16(h, 0, 3, 3))
	assert.Zero(t, EstimateBits16(histogramOf(nil, 1, 60), 0, 9, 1))
	// Sizes beyond 2^64 units saturate.
	assert.Equal(t, ^uint64(0), EstimateBits16(h, 1<<40, 1<<60, 3))
	h = histogramOf([]uint16{5, 5}, 1, 60) // no entropy, one cell of 8 bits
	assert.Equal(t, ^uint64(65535), EstimateBits16(h, 1, 1<<48-9, 1))
	assert.Equal(t, ^uint64(0), EstimateBits16(h, 1, 1<<48-8, 1))
}
