package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// decayed makes rows of which each idle one is what the program gives and the others are noise.
func decayed(t *testing.T, d dtype.Info, p predict.Program, rows, rho int, idle float64, seed uint64) Rows {
	rng := rand.New(rand.NewPCG(seed, 4))
	r := Rows{DType: &d, Rho: uint64(rho), N: uint64(rows)}
	encode := testkit.Float32s
	if d.Width == 16 {
		encode = testkit.BFloat16s
	}
	for range rows {
		row := make([]float32, rho)
		other := make([]float32, rho)
		for i := range row {
			row[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(6))-10))
			other[i] = row[i] + float32(rng.NormFloat64()*1e-4)
		}
		ref := encode(row)
		target := encode(other)
		if rng.Float64() < idle {
			p.Predict(target, [][]byte{ref}, &d, []dtype.Info{d})
		}
		r.Ref, r.Target = append(r.Ref, ref...), append(r.Target, target...)
	}
	return r
}

func TestDecay(t *testing.T) {
	for name, c := range map[string]struct {
		code uint8
		run  predict.Run
	}{
		"first moment":              {3, predict.Run{Form: predict.Shrink, C: float32(1 - 0.9), Count: 20}},
		"first moment, bfloat16":    {1, predict.Run{Form: predict.Shrink, C: float32(1 - 0.9), Count: 10}},
		"second moment":             {3, predict.Run{Form: predict.Scale, C: float32(0.95), Count: 20}},
		"second moment, long":       {3, predict.Run{Form: predict.Scale, C: float32(0.999), Count: 700}},
		"weight decay, many steps":  {3, predict.Run{Form: predict.Scale, C: 1 - 3.0/(1<<24), Count: 50}},
		"weight decay, strong":      {3, predict.Run{Form: predict.Scale, C: float32(1 - 1e-3*0.1), Count: 17}},
		"weight decay, 1000 steps":  {3, predict.Run{Form: predict.Scale, C: float32(1 - 1e-4*0.1), Count: 1000}},
		"an unusual rate, one step": {3, predict.Run{Form: predict.Scale, C: 0.7318, Count: 1}},
		"float16":                   {2, predict.Run{Form: predict.Scale, C: float32(0.95), Count: 3}},
	} {
		want := predict.Program{Code: predict.Decay, Runs: []predict.Run{c.run}}
		d := info(t, c.code)
		r := decayed(t, d, want, 300, 48, 0.5, 1)
		got, ok := r.Decay()
		if !assert.True(t, ok, name) {
			continue
		}
		exact, memory := 0, []byte(nil)
		for i := range r.N {
			if r.Exact(&got, i, &memory) {
				exact++
			}
		}
		assert.Greater(t, exact, 100, "%s: %+v", name, got)
	}
}

func TestNoDecay(t *testing.T) {
	p := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: predict.Scale, C: 0.5, Count: 1}}}
	for _, code := range []uint8{1, 3} {
		r := decayed(t, info(t, code), p, 100, 32, 0, 2)
		_, ok := r.Decay()
		assert.False(t, ok, "noise")
		r.Target = r.Ref
		_, ok = r.Decay()
		assert.False(t, ok, "nothing changed")
	}
	// Rows that all shrank, but by no rule.
	d := info(t, 3)
	rng := rand.New(rand.NewPCG(3, 3))
	var ref, target []float32
	for range 64 * 16 {
		v := float32(rng.NormFloat64())
		ref, target = append(ref, v), append(target, v*float32(0.5+0.4*rng.Float64()))
	}
	r := Rows{DType: &d, Target: testkit.Float32s(target), Ref: testkit.Float32s(ref), Rho: 16, N: 64}
	_, ok := r.Decay()
	assert.False(t, ok)
}

func TestLeastConstant(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		ref := math.Float32bits(float32(rng.NormFloat64()))
		k := 1 + rng.IntN(100)
		c := float32(1 - 0.1*rng.Float64())
		x := scaled(ref, c, k)
		least := leastConstant(x, ref, k)
		require.Equal(t, x, scaled(ref, least, k))
		require.LessOrEqual(t, least, c)
		below := math.Float32frombits(math.Float32bits(least) - 1)
		require.Less(t, magnitude(scaled(ref, below, k)), magnitude(x))
	}
}
