package predict

import (
	"math"
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/le"
)

// castLanes converts the float lanes of src to those of dst.
func castLanes(dst, src []byte, to, from *dtype.Info) {
	n := len(dst) * 8 / to.Width
	for i := range n {
		putLane(dst, i, to.Width, CastBits(lane(src, i, from.Width), to, from))
	}
}

func lane(b []byte, i, width int) uint64 {
	switch width {
	case 16:
		return uint64(le.Load[uint16](b, i))
	case 32:
		return uint64(le.Load[uint32](b, i))
	default:
		return le.Load[uint64](b, i)
	}
}

func putLane(b []byte, i, width int, v uint64) {
	switch width {
	case 16:
		le.Store(b, i, uint16(v))
	case 32:
		le.Store(b, i, uint32(v))
	default:
		le.Store(b, i, v)
	}
}

// CastBits converts a float's bits between IEEE formats: round to nearest, ties to even, overflow to infinity. A NaN keeps its
// sign and the top of its payload; a narrowing conversion makes it quiet. All by integers, so the processor's rounding and
// flush-to-zero modes do not matter.
func CastBits(u uint64, to, from *dtype.Info) uint64 {
	sign := u >> (from.Width - 1) << (to.Width - 1)
	mask := uint64(1)<<from.MantBits - 1
	mant := u & mask
	exp := int(u >> from.MantBits & (1<<from.ExpBits - 1))
	top := 1<<to.ExpBits - 1
	if exp == 1<<from.ExpBits-1 {
		v := sign | uint64(top)<<to.MantBits
		switch {
		case mant == 0:
			return v
		case to.MantBits >= from.MantBits:
			return v | mant<<(to.MantBits-from.MantBits)
		default:
			return v | mant>>(from.MantBits-to.MantBits) | 1<<(to.MantBits-1)
		}
	}
	if exp == 0 {
		if mant == 0 {
			return sign
		}
		// Give a subnormal its leading one.
		shift := from.MantBits + 1 - bits.Len64(mant)
		mant <<= shift
		exp = 1 - shift
	} else {
		mant |= mask + 1
	}
	// value = mant * 2^(exp - bias - MantBits), mant with from.MantBits+1 bits
	e := exp - (1<<(from.ExpBits-1) - 1) + (1<<(to.ExpBits-1) - 1)
	drop := from.MantBits - to.MantBits // bits to lose; negative: bits to gain
	if e < 1 {
		drop += 1 - e // subnormal in the target
		e = 0
	}
	switch {
	case drop > from.MantBits+2:
		return sign // below half of the smallest subnormal
	case drop <= 0:
		mant <<= -drop
	default:
		half := uint64(1) << (drop - 1)
		odd := mant >> drop & 1
		mant = (mant + half - 1 + odd) >> drop
	}
	// Adding the mantissa with its leading one to the exponent minus one carries where rounding overflows; a subnormal has none.
	var v uint64
	if e == 0 {
		v = mant
	} else {
		v = uint64(e-1)<<to.MantBits + mant
	}
	if v >= uint64(top)<<to.MantBits {
		v = uint64(top) << to.MantBits
	}
	return sign | v
}

// float32Of is the value of a 16-bit float.
func float32Of(v uint16, d *dtype.Info) float32 {
	if d.ExpBits == float32Info.ExpBits {
		return math.Float32frombits(uint32(v) << 16)
	}
	return math.Float32frombits(uint32(CastBits(uint64(v), &float32Info, d)))
}

// round16 rounds to a 16-bit float.
func round16(x float32, d *dtype.Info) uint16 {
	return uint16(CastBits(uint64(math.Float32bits(x)), d, &float32Info))
}

var float32Info, _ = dtype.Lookup(float32Code)
