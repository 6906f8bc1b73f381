package model

import (
	"math"
	"math/bits"
)

// cellCost is what section 21 charges for a (context, token) cell that is not 0: 8 bits.
const cellCost = 8 * oneBit

// EstimateBits16 returns the estimated size of m lane values in units of 2^-16 bit (FORMAT.md section 21, "Estimate"). h is
// the histogram of a sample of sampled >= 1 of them, rawBits the bits of tails and raw planes of the sample. The result
// saturates, which takes a tensor far beyond what an address space holds.
func EstimateBits16(h *Histogram, rawBits, m, sampled uint64) uint64 {
	cells, _ := h.list()
	sample := rawBits << logFracBits
	for i := 0; i < len(cells); {
		context := cells[i].context()
		total := uint64(0)
		for ; i < len(cells) && cells[i].context() == context; i++ {
			total += uint64(cells[i].count)
			sample -= XLog(uint64(cells[i].count))
		}
		sample += XLog(total)
	}
	hi, lo := bits.Mul64(sample, m)
	if hi >= sampled {
		return math.MaxUint64
	}
	scaled, _ := bits.Div64(hi, lo, sampled)
	tables := uint64(len(cells)) * cellCost
	if scaled > math.MaxUint64-tables {
		return math.MaxUint64
	}
	return scaled + tables
}
