package sparse

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

const low7 = 0x7f7f7f7f7f7f7f7f

// equalBytes has the top bit of each of the first eight bytes of b that equals c, and no other bit.
func equalBytes(b []uint8, c uint8) uint64 {
	x := le.Load64(b, 0) ^ uint64(c)*0x0101010101010101
	return ^(x&low7 + low7 | x | low7)
}

func placesGeneric(places, ranks []uint32, clusters []uint8, c uint8) {
	at, before := 0, uint32(0)
	same := equalBytes(clusters, c)
	for i, r := range ranks {
		n := uint32(bits.OnesCount64(same))
		for r-before >= n {
			before += n
			at += 8
			same = equalBytes(clusters[at:], c)
			n = uint32(bits.OnesCount64(same))
		}
		left := same
		for range r - before {
			left &= left - 1
		}
		places[i] = uint32(at + bits.TrailingZeros64(left)>>3)
	}
}

func ranksGeneric(ranks, places []uint32, clusters []uint8, c uint8) {
	at, before := 0, uint32(0)
	same := equalBytes(clusters, c)
	for i, p := range places {
		for int(p)-at >= 8 {
			before += uint32(bits.OnesCount64(same))
			at += 8
			same = equalBytes(clusters[at:], c)
		}
		ranks[i] = before + uint32(bits.OnesCount64(same&(1<<(8*(int(p)-at))-1)))
	}
}
