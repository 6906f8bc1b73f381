package blob

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/le"
)

// narrowed describes the lane values of a float dtype without drop low bits (FORMAT.md section 16): the sign on top, the
// exponent and what is left of the mantissa (at least two bits) at the bottom, in the narrowest of 16, 32 and 64 bits that
// holds them.
func narrowed(d *dtype.Info, drop int) (dtype.Info, bool) {
	if !d.Float || d.Width < 16 || drop < 1 || drop > maxDrop(d) {
		return *d, false
	}
	n := *d
	n.Width = max(16, 1<<bits.Len(uint(d.Width-drop-1)))
	n.MantBits = d.MantBits - drop
	n.ItemSize = n.Components * n.Width / 8
	return n, true
}

// maxDrop is the largest number of bits that can be left out.
func maxDrop(d *dtype.Info) int { return d.MantBits - 2 }

// narrow copies lane values of width bits to dst without drop low bits, as lane values of to bits.
func narrow(dst, src []byte, width, to, drop int) {
	switch width {
	case 16:
		narrowTo[uint16](dst, src, to, drop)
	case 32:
		narrowTo[uint32](dst, src, to, drop)
	default:
		narrowTo[uint64](dst, src, to, drop)
	}
}

func narrowTo[S uint16 | uint32 | uint64](dst, src []byte, to, drop int) {
	switch to {
	case 16:
		narrowLanes[S, uint16](dst, src, drop)
	case 32:
		narrowLanes[S, uint32](dst, src, drop)
	default:
		narrowLanes[S, uint64](dst, src, drop)
	}
}

func narrowLanes[S, T uint16 | uint32 | uint64](dst, src []byte, drop int) {
	low := uint(drop) & 63
	from, to := 8*sizeOf[S](), 8*sizeOf[T]()
	for i := range len(dst) / sizeOf[T]() {
		v := le.Load[S](src, i)
		sign := v >> (from - 1)
		le.Store(dst, i, T(v<<1>>1>>low)|T(sign)<<(to-1))
	}
}

// widen is the inverse of narrow.
func widen(dst, src []byte, width, from, drop int) {
	switch width {
	case 16:
		widenTo[uint16](dst, src, from, drop)
	case 32:
		widenTo[uint32](dst, src, from, drop)
	default:
		widenTo[uint64](dst, src, from, drop)
	}
}

func widenTo[T uint16 | uint32 | uint64](dst, src []byte, from, drop int) {
	switch from {
	case 16:
		widenLanes[T, uint16](dst, src, drop)
	case 32:
		widenLanes[T, uint32](dst, src, drop)
	default:
		widenLanes[T, uint64](dst, src, drop)
	}
}

func widenLanes[T, S uint16 | uint32 | uint64](dst, src []byte, drop int) {
	low := uint(drop) & 63
	to, from := 8*sizeOf[T](), 8*sizeOf[S]()
	for i := range len(dst) / sizeOf[T]() {
		v := le.Load[S](src, i)
		sign := v >> (from - 1)
		le.Store(dst, i, T(v<<1>>1)<<low|T(sign)<<(to-1))
	}
}

func sizeOf[T uint16 | uint32 | uint64]() int { return bits.Len64(uint64(^T(0))) / 8 }

// zeroBits returns how many low bits are 0 in all lane values of b, at most the width.
func zeroBits(b []byte, width int) int {
	var seen uint64
	n := len(b) / (width / 8)
	for i := 0; i < n; {
		for end := min(i+1024, n); i < end; i++ {
			switch width {
			case 16:
				seen |= uint64(le.Load[uint16](b, i))
			case 32:
				seen |= uint64(le.Load[uint32](b, i))
			default:
				seen |= le.Load[uint64](b, i)
			}
		}
		if seen&1 != 0 {
			return 0
		}
	}
	return min(bits.TrailingZeros64(seen), width)
}
