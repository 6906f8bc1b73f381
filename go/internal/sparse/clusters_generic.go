package sparse

import "math/bits"

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
