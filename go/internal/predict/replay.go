package predict

import (
	"math"

	"github.com/ulpack/ulpack/go/internal/le"
)

// fused is float32(a*b + c) with the product exact (see the package comment).
func fused(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

func get(b []byte, i int) float32    { return math.Float32frombits(le.Load[uint32](b, i)) }
func put(b []byte, i int, v float32) { le.Store(b, i, math.Float32bits(v)) }

// finite reports whether no bit pattern has all exponent bits set.
func finite(v float32) bool { return math.Float32bits(v)&0x7f800000 != 0x7f800000 }

// AdamVStep is the second moment after a step of Adam, from that before (v0) and the first moments before and after.
func AdamVStep(v0, m0, m1, b2, w1, w2 float32) float32 {
	g := float32(m0 + float32(float32(m1-m0)/w1))
	return fused(float32(w2*g), g, float32(v0*b2))
}

func adamV(dst, v0, m1, m0 []byte, b2, w1, w2 float32) {
	for i := range len(dst) / 4 {
		a, b, c := get(v0, i), get(m1, i), get(m0, i)
		p := AdamVStep(a, c, b, b2, w1, w2)
		if !finite(a) || !finite(b) || !finite(c) || !finite(p) {
			p = a
		}
		put(dst, i, p)
	}
}

// AdamWDirection is the quotient in the weight's step.
func AdamWDirection(m1, v1, s2, eps float32) float32 {
	root := float32(math.Sqrt(float64(v1))) // rounding twice gives the float32 root: 53 >= 2*24 + 2
	return float32(m1 / float32(float32(root/s2)+eps))
}

func adamW(dst, x0, m1, v1 []byte, c, s2, eps, a float32) {
	for i := range len(dst) / 4 {
		x, m, v := get(x0, i), get(m1, i), get(v1, i)
		p := fused(a, AdamWDirection(m, v, s2, eps), float32(x*c))
		if !finite(x) || !finite(m) || !finite(v) || !finite(p) {
			p = x
		}
		put(dst, i, p)
	}
}

func sgdWeight(dst, x0, buf []byte, c, a float32) {
	for i := range len(dst) / 4 {
		x, b := get(x0, i), get(buf, i)
		p := fused(a, b, float32(x*c))
		if !finite(x) || !finite(b) || !finite(p) {
			p = x
		}
		put(dst, i, p)
	}
}

// WeightStep is the last operation of the weight's step: x0 * c + a * direction, the product with a and the sum fused.
func WeightStep(x0, direction, c, a float32) float32 { return fused(a, direction, float32(x0*c)) }
