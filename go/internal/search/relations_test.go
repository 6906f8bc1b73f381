package search

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// share is the share of lane values that a program gives exactly.
func share(t *testing.T, p predict.Program, target []byte, slots ...[]byte) float64 {
	f32 := info(t, float32Code)
	out := make([]byte, len(target))
	p.Predict(out, slots, &f32, []dtype.Info{f32, f32, f32})
	same := 0
	for i := 0; i < len(out); i += 4 {
		if bytes.Equal(out[i:i+4], target[i:i+4]) {
			same++
		}
	}
	return float64(same) * 4 / float64(len(out))
}

func TestReplay(t *testing.T) {
	for name, o := range map[string]testkit.Adam{
		"usual":          {Rate: 1e-3, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0.01, Steps: 1200},
		"late":           {Rate: 1.00017e-5, B1: 0.9, B2: 0.95, Eps: 1e-8, Decay: 0.1, Steps: 1299},
		"first steps":    {Rate: 3e-4, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0, Steps: 7},
		"large epsilon":  {Rate: 1e-3, B1: 0.9, B2: 0.98, Eps: 1e-6, Decay: 0.1, Steps: 400},
		"strong decay":   {Rate: 1e-2, B1: 0.95, B2: 0.95, Eps: 1e-8, Decay: 0.5, Steps: 900},
		"without memory": {Rate: 1e-3, B1: 0.5, B2: 0.9, Eps: 1e-8, Decay: 0.01, Steps: 60},
	} {
		s := o.Step(5000, 0.2, 7)
		tensors := stateOf(t, &s, "model.w", "optimizer.state.0.exp_avg", "optimizer.state.0.exp_avg_sq")
		step := make([]byte, 4)
		copy(step, testkit.Float32s([]float32{float32(o.Steps)}))
		tensors = append(tensors, Tensor{Name: "optimizer.state.0.step", DType: info(t, float32Code), Target: step})
		r := find(tensors)
		require.Equal(t, 1, r[2].First, name)
		require.Equal(t, 2, r[1].Second, name)
		require.True(t, r[2].Replayed, name)
		require.True(t, r[0].Weight, name)
		assert.Equal(t, [2]int{1, 2}, [2]int{r[0].First, r[0].Second})
		x, m, v := &tensors[0], &tensors[1], &tensors[2]
		assert.Greater(t, share(t, r[2].Program, v.Target, v.Ref, m.Target, m.Ref), 0.7, name)
		assert.Greater(t, share(t, r[0].Program, x.Target, x.Ref, m.Target, v.Target), 0.98, "%s: %+v", name, r[0].Program)
	}
}

func TestReplayOfSGD(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	var x0, x1, b0, b1 []float32
	for range 3000 {
		x, b, g := float32(rng.NormFloat64()*.05), float32(rng.NormFloat64()*.01), float32(rng.NormFloat64()*.01)
		x0, b0 = append(x0, x), append(b0, b)
		b = float32(float32(b*0.9) + testkit.Fused(5e-4, x, g))
		b1, x1 = append(b1, b), append(x1, testkit.Fused(-0.02, b, x))
	}
	f32 := info(t, float32Code)
	shape := []uint64{60, 50}
	tensors := []Tensor{
		{Name: "conv1.weight", DType: f32, Shape: shape, Target: testkit.Float32s(x1), Ref: testkit.Float32s(x0)},
		{Name: "other.weight", DType: f32, Shape: shape, Target: testkit.Float32s(x0), Ref: testkit.Float32s(b0)},
		{Name: "momentum/conv1.weight", DType: f32, Shape: shape, Target: testkit.Float32s(b1), Ref: testkit.Float32s(b0)},
	}
	r := find(tensors)
	require.Equal(t, 2, r[0].Buffer)
	assert.EqualValues(t, predict.SGDWeight, r[0].Program.Code)
	assert.Greater(t, share(t, r[0].Program, tensors[0].Target, tensors[0].Ref, tensors[2].Target), 0.98)
	assert.Equal(t, None, r[1].Buffer)
}

// What no step explains is left alone.
func TestNoReplay(t *testing.T) {
	s := testkit.Adam{Rate: 1e-3, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0.01, Steps: 100}.Step(5000, 0, 1)
	other := testkit.Adam{Rate: 1e-3, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0.01, Steps: 100}.Step(5000, 0, 2)
	s.M1, s.X1 = other.M1, other.X1 // of another step
	r := find(stateOf(t, &s, "w", "exp_avg.w", "exp_avg_sq.w"))
	assert.False(t, r[2].Replayed)
	assert.False(t, r[0].Weight)
	assert.Equal(t, None, r[0].Buffer)
	assert.Equal(t, 2, r[1].Second, "they still belong together")
}

func TestManyParameters(t *testing.T) {
	o := testkit.Adam{Rate: 1e-3, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0.01, Steps: 500}
	for style, name := range map[string]func(i int) [3]string{
		"by number": func(i int) [3]string {
			return [3]string{fmt.Sprintf("layers.%d.w", i), fmt.Sprintf("opt.state.%d.exp_avg", i), fmt.Sprintf("opt.state.%d.exp_avg_sq", i)}
		},
		"by name": func(i int) [3]string {
			return [3]string{fmt.Sprintf("layers.%d.w", i), fmt.Sprintf("opt/exp_avg/layers.%d.w", i), fmt.Sprintf("opt/exp_avg_sq/layers.%d.w", i)}
		},
		"unlike": func(i int) [3]string {
			return [3]string{fmt.Sprintf("w%d", 9-i), fmt.Sprintf("m.p%d", i), fmt.Sprintf("v.p%d", i)}
		},
	} {
		var all [3][]Tensor
		for i := range 6 {
			s := o.Step(400, 0, uint64(10+i))
			n := name(i)
			for k, x := range stateOf(t, &s, n[0], n[1], n[2]) {
				all[k] = append(all[k], x)
			}
		}
		tensors := append(append(all[0], all[1]...), all[2]...)
		tensors = append(tensors, Tensor{Name: "step", DType: info(t, 23), Target: []byte{0xf4, 1, 0, 0, 0, 0, 0, 0}}) // 500
		r := find(tensors)
		for i := range 6 {
			assert.Equal(t, 6+i, r[12+i].First, style)
			assert.True(t, r[i].Weight, "%s: weight %d", style, i)
			assert.Equal(t, 6+i, r[i].First, style)
		}
		assert.Equal(t, r, find(tensors), "again")
	}
}

func TestEqual(t *testing.T) {
	f32, bf16 := info(t, 3), info(t, 1)
	rng := rand.New(rand.NewPCG(8, 8))
	value := make([]byte, 400)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	near := bytes.Clone(value)
	near[201] ^= 1
	shape := []uint64{100}
	tensors := []Tensor{
		{Name: "a", DType: f32, Shape: shape, Target: value},
		{Name: "b", DType: f32, Shape: shape, Target: near},
		{Name: "c", DType: f32, Shape: shape, Target: bytes.Clone(value)},
		{Name: "d", DType: f32, Shape: []uint64{10, 10}, Target: value},
		{Name: "e", DType: bf16, Shape: []uint64{200}, Target: value},
		{Name: "f", DType: f32, Shape: shape, Target: value, Ref: value},
		{Name: "g", DType: f32, Shape: shape, Target: make([]byte, 400)},
		{Name: "h", DType: f32, Shape: shape, Target: make([]byte, 400)},
		{Name: "i", DType: f32, Shape: []uint64{5}, Target: value[:20]},
		{Name: "j", DType: f32, Shape: []uint64{5}, Target: value[:20]},
		{Name: "empty", DType: f32, Shape: []uint64{0}, Target: []byte{}},
	}
	for i, r := range find(tensors) {
		want := None
		if tensors[i].Name == "c" {
			want = 0
		}
		assert.Equal(t, want, r.Equal, tensors[i].Name)
	}
}

func TestSources(t *testing.T) {
	f32, f64, bf16, f16 := info(t, 3), info(t, 4), info(t, 1), info(t, 2)
	rng := rand.New(rand.NewPCG(4, 4))
	master := func() (wide []byte) {
		var v []float32
		for range 2000 {
			v = append(v, float32(rng.NormFloat64()))
		}
		return testkit.Float32s(v)
	}
	cast := func(src []byte, from, to dtype.Info) []byte {
		dst := make([]byte, len(src)/from.ItemSize*to.ItemSize)
		p := predict.Program{Code: predict.Cast}
		p.Predict(dst, [][]byte{src}, &to, []dtype.Info{from})
		return dst
	}
	shape := []uint64{2000}
	a, b := master(), master()
	tensors := []Tensor{
		{Name: "model.a", DType: bf16, Shape: shape, Target: cast(a, f32, bf16)},
		{Name: "model.b", DType: f16, Shape: shape, Target: cast(b, f32, f16)},
		{Name: "unrelated", DType: bf16, Shape: shape, Target: cast(master(), f32, bf16)},
		{Name: "master/b", DType: f32, Shape: shape, Target: b},
		{Name: "master/a", DType: f32, Shape: shape, Target: a},
		{Name: "double", DType: f64, Shape: shape, Target: cast(a, f32, f64)},
		{Name: "x.b", DType: bf16, Shape: shape, Target: cast(a, f32, bf16)},
	}
	r := find(tensors)
	assert.Equal(t, 4, r[0].Source)
	assert.Equal(t, 3, r[1].Source)
	assert.Equal(t, None, r[2].Source)
	assert.Equal(t, None, r[3].Source)
	assert.Equal(t, 5, r[4].Source, "the double holds it exactly")
	assert.Equal(t, 0, r[6].Equal)
	tensors[6].Target = bytes.Clone(tensors[6].Target)
	tensors[6].Target[99] ^= 1
	r = find(tensors)
	assert.Equal(t, 5, r[6].Source, "what its name leads to is not free")
	assert.Equal(t, None, r[4].Source, "each tensor is the source of one")
}

func TestPairsOfOtherTypes(t *testing.T) {
	bf16 := info(t, 1)
	rng := rand.New(rand.NewPCG(4, 5))
	var m, v []float32
	for range 500 {
		m, v = append(m, float32(rng.NormFloat64())), append(v, float32(math.Abs(rng.NormFloat64())))
	}
	shape := []uint64{500}
	tensors := []Tensor{
		{Name: "state.0.exp_avg", DType: bf16, Shape: shape, Target: testkit.BFloat16s(m), Ref: testkit.BFloat16s(m)},
		{Name: "state.0.exp_avg_sq", DType: bf16, Shape: shape, Target: testkit.BFloat16s(v), Ref: testkit.BFloat16s(v)},
		{Name: "state.1.exp_avg", DType: bf16, Shape: []uint64{5, 100}, Target: testkit.BFloat16s(m), Ref: testkit.BFloat16s(m)},
		{Name: "state.0.zeros", DType: bf16, Shape: shape, Target: make([]byte, 1000), Ref: make([]byte, 1000)},
	}
	r := find(tensors)
	assert.Equal(t, 1, r[0].Second)
	assert.Equal(t, 0, r[1].First)
	assert.False(t, r[1].Replayed, "no arithmetic of a step in this dtype")
	assert.Equal(t, None, r[2].Second, "another shape")
	assert.Equal(t, None, r[3].First, "all zeros are no second moment")
}
