package model

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIsqrt(t *testing.T) {
	for v := uint64(1); v < 3000; v++ {
		r := isqrt(v)
		require.True(t, r*r <= v && (r+1)*(r+1) > v, v)
	}
	for r := uint64(3); r < 1<<32; r = r*5/3 + 1 {
		require.Equal(t, r, isqrt(r*r))
		require.Equal(t, r-1, isqrt(r*r-1))
	}
	require.Equal(t, uint64(1<<32-1), isqrt(math.MaxUint64))
}

// The survival functions against what they stand for, in floating point.
func TestSurvival(t *testing.T) {
	for h := range 2 {
		for j := firstJ; j <= lastJ; j++ {
			for m := 4; m < 8; m++ {
				at := 4*(j-firstJ) + m - 4
				x := float64(m) / 4 * math.Exp2(float64(j)+float64(h)/2)
				e, q := math.Exp2(-x), math.Exp2(-x*x)
				for shape, want := range []float64{
					e, e * q, (7*e + math.Exp2(-x/8)) / 8, (15*math.Exp2(-16*x) + e) / 16, max(0, 1-x),
				} {
					s := survival[shape][h][at]
					require.LessOrEqual(t, s, uint64(one))
					// The integers are 2^-32 apart, and squarings eight times over double a relative error each time.
					require.InDelta(t, want, float64(s)/one, 1e-6, "shape %d h %d j %d m %d", shape, h, j, m)
					require.Equal(t, oracleSurvival(shape, h, m, j).Uint64(), s)
					if at > 0 {
						require.LessOrEqual(t, s, survival[shape][h][at-1], "survival does not rise")
					}
				}
			}
		}
		for shape := range survival {
			require.Equal(t, uint64(one), survival[shape][h][0])
			require.Zero(t, survival[shape][h][len(survival[shape][h])-1])
		}
	}
}

// familySpecs are specs of all kinds, cached and not.
func familySpecs() (specs []ParamSpec) {
	for _, w := range []int{16, 32, 64} {
		for k := 0; k <= 48 && k < w; k += 8 {
			specs = append(specs, ParamSpec{K: k, A: 4*(w-k-3) + 8, ContextPart: 1})
		}
	}
	specs = append(specs, ParamSpec{Map: 2, A: 256})
	for _, base := range []uint64{0, 1, 22, 4003} {
		for _, a := range []int{2, 3, 60, 256} {
			specs = append(specs, ParamSpec{Map: 1, A: a, Base: base, T: 6, MantBits: 7})
		}
	}
	return specs
}

func TestRowsAgainstOracle(t *testing.T) {
	for i, spec := range familySpecs() {
		for shape := range shapes {
			for sc := minScale + (i+shape)%5; sc <= maxScale; sc += 5 {
				require.Equal(t, oracleRow(shape, sc, spec), ParametricRow(uint8(shape), sc, spec), "%+v shape %d scale %d", spec, shape, sc)
			}
		}
	}
}

func TestRowsAreDistributions(t *testing.T) {
	for _, spec := range familySpecs() {
		for shape := range uint8(shapes) {
			for sc := minScale - 1; sc <= maxScale+1; sc++ {
				row := ParametricRow(shape, sc, spec)
				sum := 0
				for s, f := range row {
					if f == 0 || f > 4096 {
						require.Fail(t, "out of range", "%+v shape %d scale %d token %d: %d", spec, shape, sc, s, f)
					}
					sum += int(f)
				}
				if sum != 4096 {
					require.Fail(t, "sum", "%+v shape %d scale %d: %d", spec, shape, sc, sum)
				}
			}
			require.Equal(t, ParametricRow(shape, minScale, spec), ParametricRow(shape, -1000, spec))
			require.Equal(t, ParametricRow(shape, maxScale, spec), ParametricRow(shape, 1000, spec))
		}
	}
}

func TestRowWorkedValues(t *testing.T) {
	for _, c := range []struct {
		shape uint8
		sc    int
		spec  ParamSpec
		want  []uint16
	}{
		{0, 8, ParamSpec{A: 60}, []uint16{172, 164, 157, 151, 144, 138, 132, 127, 237, 218, 200, 183, 338, 270, 228, 191, 296, 209, 148, 105,
			127, 64, 32, 16, 12, 3, 1, 1}},
		{1, 5, ParamSpec{A: 60}, []uint16{542, 605, 598, 552, 476, 386, 295, 214, 243, 95, 31, 9, 3, 1, 1}},
		{2, 9, ParamSpec{A: 60, K: 16}, []uint16{4037, 1, 1}},
		{3, -7, ParamSpec{Map: 2, A: 256}, []uint16{3841, 1, 1}},
		{4, 7, ParamSpec{Map: 2, A: 256}, []uint16{346, 340, 340, 340, 340, 340, 340, 340, 340, 340, 223, 223, 1, 1}},
		{4, 8, ParamSpec{Map: 1, Base: 482, A: 40, T: 6, MantBits: 7}, []uint16{381, 64, 64, 127, 127, 127, 127, 254, 254, 254, 254, 514,
			508, 508, 508, 1, 1}},
	} {
		row := ParametricRow(c.shape, c.sc, c.spec)
		assert.Equal(t, c.want, row[:len(c.want)])
		assert.Len(t, row, c.spec.A)
		for _, f := range row[len(c.want):] {
			assert.Equal(t, uint16(1), f)
		}
	}
}

// The scale of token map 1 counts from the octave of the base.
func TestRowBase(t *testing.T) {
	spec := func(base uint64) ParamSpec { return ParamSpec{Map: 1, A: 80, Base: base, T: 6, MantBits: 7} }
	for _, base := range []uint64{4, 480, 1 << 40, 1<<64 - 4} {
		assert.Equal(t, ParametricRow(0, 30, spec(0)), ParametricRow(0, 30, spec(base)))
		assert.Equal(t, ParametricRow(0, 30, spec(3)), ParametricRow(0, 30, spec(base+3)))
	}
	assert.NotEqual(t, ParametricRow(0, 30, spec(0)), ParametricRow(0, 30, spec(3)))
}

func TestRowsConcurrently(t *testing.T) {
	FreeMemory()
	rows := make([][]uint16, 8)
	var wg sync.WaitGroup
	for i := range rows {
		wg.Go(func() {
			for sc := minScale; sc <= maxScale; sc++ {
				rows[i] = ParametricRow(2, sc, ParamSpec{A: 60})
			}
		})
	}
	wg.Wait()
	for _, row := range rows {
		assert.Equal(t, oracleRow(2, maxScale, ParamSpec{A: 60}), row)
	}
	again := ParametricRow(2, maxScale, ParamSpec{A: 60})
	assert.Same(t, &again[0], &ParametricRow(2, maxScale, ParamSpec{A: 60})[0], "computed once")
}

func TestFamilyIndex(t *testing.T) {
	seen := map[int]bool{}
	for _, spec := range familySpecs() {
		at := familyIndex(&spec)
		if spec.Map == 1 {
			assert.Equal(t, -1, at)
			continue
		}
		assert.GreaterOrEqual(t, at, 0)
		assert.Less(t, at, len(families))
		assert.False(t, seen[at], "%+v shares a family", spec)
		seen[at] = true
	}
	for _, spec := range []ParamSpec{{A: 61}, {A: 62}, {A: 64}, {A: 8, K: 64}, {A: 8, K: -8}, {A: 60, K: 4}, {Map: 2, A: 255}} {
		assert.Equal(t, -1, familyIndex(&spec), "%+v", spec)
	}
}

func TestParametricTables(t *testing.T) {
	spec := ParamSpec{A: 60, ContextPart: 1}
	flat := ParametricTables(1, 0, 12, spec)
	assert.Equal(t, [][]uint16{ParametricRow(1, 12, spec)}, flat.Freq)
	assert.Equal(t, make([]uint8, 32), flat.ContextMap)

	for _, scale := range []int{40, 12, -32, 160, 223} {
		sloped := ParametricTables(1, 1, scale, spec)
		require.Len(t, sloped.ContextMap, 32)
		for c, k := range sloped.ContextMap {
			require.Equal(t, ParametricRow(1, scale-2*c, spec), sloped.Freq[k], "context %d", c)
		}
		checkFrequencies(t, sloped, 60)
	}
	bytes := ParamSpec{Map: 2, A: 256, ContextPart: 2}
	flat = ParametricTables(0, 0, 3, bytes)
	assert.Equal(t, [][]uint16{ParametricRow(0, 3, bytes)}, flat.Freq)
	assert.Equal(t, make([]uint8, 256), flat.ContextMap)
}

func TestCheckParametric(t *testing.T) {
	spec := ParamSpec{A: 60, ContextPart: 1}
	for shape := range uint8(shapes) {
		assert.NoError(t, CheckParametric(shape, 0, spec))
		assert.NoError(t, CheckParametric(shape, 1, spec))
	}
	assert.ErrorIs(t, CheckParametric(shapes, 0, spec), errShape)
	assert.ErrorIs(t, CheckParametric(0, 2, spec), errSlope)
	assert.ErrorIs(t, CheckParametric(0, 1, ParamSpec{Map: 2, A: 256, ContextPart: 2}), errSlope)
	leading := ParamSpec{Map: 1, A: 60, T: 6, MantBits: 7}
	assert.NoError(t, CheckParametric(0, 0, leading))
	leading.T = 7
	assert.ErrorIs(t, CheckParametric(0, 0, leading), errMap)
}
