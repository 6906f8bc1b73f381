package search

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
)

func info(t testing.TB, code uint8) dtype.Info {
	d, ok := dtype.Lookup(code)
	require.True(t, ok)
	return d
}

func bytesOf(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// halves are the top halves of float32 values: bfloat16, cut off.
func halves(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
	}
	return b
}

// fused is float32(a*b + c) with the product exact.
func fused(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

// state is a parameter with the state of its optimizer, before and after a step.
type state struct{ x0, x1, m0, m1, v0, v1 []float32 }

// adamOptions are those of torch's AdamW.
type adamOptions struct{ lr, b1, b2, eps, decay, step float64 }

// adamStep is a step of torch's AdamW on the processor, from random values; a share of the lane values got no gradient.
func adamStep(n int, o adamOptions, idle float64, seed uint64) (s state) {
	rng := rand.New(rand.NewPCG(seed, 99))
	for range n {
		x, m, v := float32(rng.NormFloat64()*.05), float32(rng.NormFloat64()*1e-3), float32(rng.ExpFloat64()*1e-6)
		g := float32(rng.NormFloat64() * 1e-3)
		if rng.Float64() < idle {
			g = 0
		}
		s.x0, s.m0, s.v0 = append(s.x0, x), append(s.m0, m), append(s.v0, v)
		m = fused(float32(1-o.b1), float32(g-m), m)
		v = fused(float32(float32(1-o.b2)*g), g, float32(v*float32(o.b2)))
		den := float32(float32(float32(math.Sqrt(float64(v)))/float32(math.Sqrt(1-math.Pow(o.b2, o.step)))) + float32(o.eps))
		x = fused(float32(-o.lr/(1-math.Pow(o.b1, o.step))), float32(m/den), float32(x*float32(1-o.lr*o.decay)))
		s.x1, s.m1, s.v1 = append(s.x1, x), append(s.m1, m), append(s.v1, v)
	}
	return s
}

func (s *state) tensors(t testing.TB, weight, first, second string) []Tensor {
	f32 := info(t, float32Code)
	shape := []uint64{uint64(len(s.x0))}
	return []Tensor{
		{Name: weight, DType: f32, Shape: shape, Target: bytesOf(s.x1), Ref: bytesOf(s.x0)},
		{Name: first, DType: f32, Shape: shape, Target: bytesOf(s.m1), Ref: bytesOf(s.m0)},
		{Name: second, DType: f32, Shape: shape, Target: bytesOf(s.v1), Ref: bytesOf(s.v0)},
	}
}

// find runs all steps.
func find(tensors []Tensor) []Relation {
	f := NewFinder(tensors)
	for k := range f.Pairs() {
		f.Replay(k)
	}
	for k := range f.FindWeights() {
		f.Step(k)
	}
	return f.Relations()
}
