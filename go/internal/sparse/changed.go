package sparse

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

// Changed lists the lane values of width 16 or 32 bits in which two rows of them differ, in the memory of dst if that is
// large enough; ok is false if they are more than limit.
func Changed(dst []uint32, a, b []byte, width, limit int) (list []uint32, ok bool) {
	const batch = 64 // blocks
	list = dst[:0]
	size := width / 8
	n := len(a) / size
	var masks [batch]uint64
	at := 0
	for n-at >= block && len(list) <= limit {
		blocks := min((n-at)/block, batch)
		changedBlocks(masks[:blocks], a[at*size:], b[at*size:], width)
		for i, mask := range masks[:blocks] {
			for ; mask != 0; mask &= mask - 1 {
				list = append(list, uint32(at+i*block+bits.TrailingZeros64(mask)))
			}
		}
		at += blocks * block
	}
	if len(list) > limit {
		return list, false
	}
	for ; at < n; at++ {
		if differ(a, b, at, width) {
			list = append(list, uint32(at))
		}
	}
	return list, len(list) <= limit
}

// changedBlocks sets a mask for each block of 64 lane values.
func changedBlocks(masks []uint64, a, b []byte, width int) {
	if hasKernels() {
		changedKernel(masks, a, b, width)
		return
	}
	for i := range masks {
		masks[i] = changedGeneric(a, b, i*block, width)
	}
}

// changedGeneric is the mask of the block of lane values from first on.
func changedGeneric(a, b []byte, first, width int) (mask uint64) {
	size := width / 8
	for at := 0; at < block*size; at += 8 {
		x := le.Load64(a, first*size+at) ^ le.Load64(b, first*size+at)
		for x != 0 {
			lane := bits.TrailingZeros64(x) / width
			mask |= 1 << (at/size + lane)
			x &^= (1<<width - 1) << (lane * width)
		}
	}
	return mask
}

func differ(a, b []byte, i, width int) bool {
	if width == 16 {
		return le.Load[uint16](a, i) != le.Load[uint16](b, i)
	}
	return le.Load[uint32](a, i) != le.Load[uint32](b, i)
}
