package transform

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

// residual computes z from target and reference bits, and back (FORMAT.md section 8), for one width and kind, without branches on the
// data. With and = 0, or = 0 the key is the value itself (integers); with and = all ones, or = the sign bit it is the order-preserving
// key of floats. keep = 0 drops the reference (predictor 0 of integers: the difference to 0).
type residual[T le.Lane] struct {
	and, or, keep T
	rotate        bool // predictor 0 of floats: z is the value rotated left by one
}

func residualOf[T le.Lane](s *Spec) residual[T] {
	var z residual[T]
	if s.Predictor == PredictReference {
		z.keep = ^T(0)
		if s.Float {
			z.and = ^T(0)
			z.or = T(1) << (s.Width - 1)
		}
	} else {
		z.rotate = s.Float
	}
	return z
}

// sign returns all ones if the top bit of v is set, otherwise 0.
func sign[T le.Lane](v T, w uint) T { return -(v >> ((w - 1) & 63)) }

func (p *residual[T]) key(u T, w uint) T   { return u ^ (sign(u, w)&p.and | p.or) }
func (p *residual[T]) unkey(k T, w uint) T { return k ^ (^sign(k, w)&p.and | p.or) }

// z codes target bits x against reference bits r.
func (p *residual[T]) z(x, r T, w uint) T {
	if p.rotate {
		return x<<1 | x>>((w-1)&63)
	}
	d := p.key(x, w) - p.key(r&p.keep, w)
	return d<<1 ^ sign(d, w)
}

// x is the inverse of z.
func (p *residual[T]) x(z, r T, w uint) T {
	if p.rotate {
		return z>>1 | z<<((w-1)&63)
	}
	d := z>>1 ^ -(z & 1)
	return p.unkey(p.key(r&p.keep, w)+d, w)
}

// widthOf is the width of T in bits, a constant in every instance.
func widthOf[T le.Lane]() uint {
	return uint(bits.Len64(uint64(^T(0))))
}
