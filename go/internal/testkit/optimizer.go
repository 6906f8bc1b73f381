package testkit

import (
	"encoding/binary"
	"math"
)

// Adam has the options of torch's AdamW, and the number of steps it has made.
type Adam struct{ Rate, B1, B2, Eps, Decay, Steps float64 }

// AdamState is a parameter with the state of its optimizer, before and after a step.
type AdamState struct{ X0, X1, M0, M1, V0, V1 []float32 }

// Step is a step of torch's AdamW on the processor for n random values; a share of them got no gradient.
func (o Adam) Step(n int, idle float64, seed uint64) (s AdamState) {
	rng := Rand(seed)
	for range n {
		x, m, v := float32(rng.NormFloat64()*.05), float32(rng.NormFloat64()*1e-3), float32(rng.ExpFloat64()*1e-6)
		g := float32(rng.NormFloat64() * 1e-3)
		if rng.Float64() < idle {
			g = 0
		}
		s.X0, s.M0, s.V0 = append(s.X0, x), append(s.M0, m), append(s.V0, v)
		m = Fused(float32(1-o.B1), float32(g-m), m)
		v = Fused(float32(float32(1-o.B2)*g), g, float32(v*float32(o.B2)))
		den := float32(float32(float32(math.Sqrt(float64(v)))/float32(math.Sqrt(1-math.Pow(o.B2, o.Steps)))) + float32(o.Eps))
		x = Fused(float32(-o.Rate/(1-math.Pow(o.B1, o.Steps))), float32(m/den), float32(x*float32(1-o.Rate*o.Decay)))
		s.X1, s.M1, s.V1 = append(s.X1, x), append(s.M1, m), append(s.V1, v)
	}
	return s
}

// Fused is a*b + c in float64, rounded to float32.
func Fused(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

// Float32s returns the bytes of values.
func Float32s(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// BFloat16s returns the bytes of values, cut off to bfloat16.
func BFloat16s(v []float32) []byte {
	b := make([]byte, 0, 2*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
	}
	return b
}
