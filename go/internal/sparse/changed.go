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

// Changed lists the lane values of width 16 or 32 bits in which two rows of them differ, in the memory of dst if that is
// large enough; ok is false if they are more than limit.
func Changed(dst []uint32, a, b []byte, width, limit int) (list []uint32, ok bool) {
	list = dst[:0]
	size := width / 8
	n := len(a) &^ 7
	for at := 0; at < n; at += 8 {
		x := le.Load64(a, at) ^ le.Load64(b, at)
		if x == 0 {
			continue
		}
		if len(list) > limit {
			return list, false
		}
		for x != 0 {
			lane := bits.TrailingZeros64(x) / width
			list = append(list, uint32(at/size+lane))
			x &^= (1<<width - 1) << (lane * width)
		}
	}
	for at := n; at < len(a); at += size {
		for i := range size {
			if a[at+i] != b[at+i] {
				list = append(list, uint32(at/size))
				break
			}
		}
	}
	return list, len(list) <= limit
}
