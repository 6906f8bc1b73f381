package search

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

func info(t testing.TB, code uint8) dtype.Info {
	d, ok := dtype.Lookup(code)
	require.True(t, ok)
	return d
}

// stateOf lists a weight and its moments.
func stateOf(t testing.TB, s *testkit.AdamState, weight, first, second string) []Tensor {
	f32 := info(t, float32Code)
	shape := []uint64{uint64(len(s.X0))}
	return []Tensor{
		{Name: weight, DType: f32, Shape: shape, Target: testkit.Float32s(s.X1), Ref: testkit.Float32s(s.X0)},
		{Name: first, DType: f32, Shape: shape, Target: testkit.Float32s(s.M1), Ref: testkit.Float32s(s.M0)},
		{Name: second, DType: f32, Shape: shape, Target: testkit.Float32s(s.V1), Ref: testkit.Float32s(s.V0)},
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
