package transform

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

// block is the number of lane values that the generic loops carry through their stages: short loops with few variables beat one long
// loop, whose variables do not fit the registers.
const block = 256

// residual says how z comes from target and reference bits (FORMAT.md section 8), for one width and kind, without branches on the
// data. With and = 0, or = 0 the key is the value itself (integers); with and = all ones, or = the sign bit it is the order-preserving
// key of floats. keep = 0 drops the reference (predictor 0 of integers: the difference to 0).
type residual[T le.Lane] struct {
	and, or, keep T
	rotate        bool // predictor 0 of floats: z is the value rotated left by one
}

func residualOf[T le.Lane](s *Spec) residual[T] {
	var p residual[T]
	if s.Predictor == PredictReference {
		p.keep = ^T(0)
		if s.Float {
			p.and = ^T(0)
			p.or = ^(^T(0) >> 1)
		}
	} else {
		p.rotate = s.Float
	}
	return p
}

// widthOf is the width of T in bits, a constant in every instance.
func widthOf[T le.Lane]() uint { return uint(bits.Len64(uint64(^T(0)))) }

// forward sets z[i] from the lane values of target and ref and returns the union of their bits.
func (p *residual[T]) forward(z []T, target, ref []byte) (seen T) {
	w := widthOf[T]() - 1
	if p.rotate {
		for i := range z {
			x := le.Load[T](target, i)
			v := x<<1 | x>>(w&63)
			z[i] = v
			seen |= v
		}
		return seen
	}
	and, or, keep := p.and, p.or, p.keep
	for i := range z {
		x, r := le.Load[T](target, i), le.Load[T](ref, i)&keep
		x ^= -(x>>(w&63))&and | or
		r ^= -(r>>(w&63))&and | or
		d := x - r
		v := d<<1 ^ -(d >> (w & 63))
		z[i] = v
		seen |= v
	}
	return seen
}

// backward is the inverse of forward: it sets the lane values of dst, which may be the memory of ref.
func (p *residual[T]) backward(dst []byte, z []T, ref []byte) {
	w := widthOf[T]() - 1
	if p.rotate {
		for i, v := range z {
			le.Store(dst, i, v>>1|v<<(w&63))
		}
		return
	}
	and, or, keep := p.and, p.or, p.keep
	for i, v := range z {
		r := le.Load[T](ref, i) & keep
		r ^= -(r>>(w&63))&and | or
		x := r + (v>>1 ^ -(v & 1))
		le.Store(dst, i, x^(^-(x>>(w&63))&and|or))
	}
}
