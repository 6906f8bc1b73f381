package blob

import (
	"math"
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/model"
)

// expectedBits is the size of the words of n lane values that the tables let expect (FORMAT.md section 36).
func (e *Encoder) expectedBits(n uint64) uint64 {
	hi, lo := bits.Mul64(e.model.Bits16, n)
	if e.model.Total == 0 || hi >= e.model.Total {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, e.model.Total)
	return q >> 16
}

// storedIsSmaller decides from the counts, for a large tensor, whether it is stored (section 36).
func (e *Encoder) storedIsSmaller(h *model.Histogram) bool {
	const perChunk = 300 // bytes that a chunk may take besides what is counted
	coded := e.expectedBits(h.Total())
	if coded < math.MaxUint64 {
		coded += rawBits(h, &e.head)
	}
	overhead := uint64(len(e.memory)) + perChunk*e.g.Chunks()
	return coded/8 >= e.g.NBytes() || coded+coded>>10+8*overhead >= 8*e.g.NBytes()
}

// rawBits is the number of tail and plane bits of the lane values in h.
func rawBits(h *model.Histogram, head *header) (sum uint64) {
	s := &head.spec
	for token := range s.Alphabet() {
		n := 0
		switch {
		case s.Map == mapHybrid:
			n = max(token>>2-1, 0) + s.K
		case s.Map == mapLeading && token > 0:
			n = s.T
		}
		if n > 0 {
			sum += h.TokenCount(token) * uint64(n)
		}
	}
	return sum
}
