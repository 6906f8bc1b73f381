package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/sidecoder"
)

// rowsOfClasses are tokens of rows that differ in scale by class, each class in its own context of exponents.
func rowsOfClasses(rng *rand.Rand, classes, rows, rho int, spread float64) (ix []uint16, list []uint8) {
	for range rows {
		class := rng.IntN(classes)
		list = append(list, uint8(class))
		for range rho {
			context := 10 + rng.IntN(4)
			token := int(math.Abs(rng.NormFloat64()) * (2 + spread*float64(class)))
			ix = append(ix, uint16((class*exponentContexts+context)<<8|min(token, 59)))
		}
	}
	return ix, list
}

// oracleClassed is section 35 word by word; nil if classes are not used.
func oracleClassed(counts [][]uint64, list []uint8, classes int) (contextMap []uint8, clusters [][]uint64) {
	flat := make([][]uint64, 32)
	n, classEntropy, flatEntropy := uint64(0), uint64(0), uint64(0)
	for c, row := range counts {
		if flat[c%32] == nil {
			flat[c%32] = make([]uint64, len(row))
		}
		flat[c%32] = oracleSum(flat[c%32], row)
		classEntropy += oracleEntropy(row)
		for _, v := range row {
			n += v
		}
	}
	p := 3
	if n < 1<<13 {
		p = 1
	} else if n < 1<<18 {
		p = 2
	}
	neighbours := func(rows [][]uint64, most int) [][]uint64 {
		var live [][]uint64
		for _, row := range rows {
			if oracleCost(row, 0) != 12*65536 {
				live = append(live, row)
			}
		}
		for len(live) > 1 {
			at, best := 0, int64(0)
			for i := range len(live) - 1 {
				if g := oracleCost(live[i], p) + oracleCost(live[i+1], p) - oracleCost(oracleSum(live[i], live[i+1]), p); i == 0 || g > best {
					at, best = i, g
				}
			}
			if best < 0 && len(live) <= most {
				break
			}
			live[at] = oracleSum(live[at], live[at+1])
			live = append(live[:at+1], live[at+2:]...)
		}
		return live
	}
	without := int64(0)
	for _, row := range neighbours(flat, 32) {
		without += oracleCost(row, p)
	}
	for _, row := range flat {
		flatEntropy += oracleEntropy(row)
	}
	bits16 := oracleXLog(uint64(len(list)))
	for class := range classes {
		k := uint64(0)
		for _, v := range list {
			if int(v) == class {
				k++
			}
		}
		bits16 -= oracleXLog(k)
	}
	lists := int64(65536 * (bits16/65536 + 64))
	if int64(classEntropy)+lists+without/64 >= int64(flatEntropy) {
		return nil, nil
	}
	// Every cluster is the set of its contexts.
	var sets [][]int
	sum := func(set []int) []uint64 {
		s := make([]uint64, len(counts[0]))
		for _, c := range set {
			s = oracleSum(s, counts[c])
		}
		return s
	}
	gain := func(a, b []int) int64 {
		return oracleCost(sum(a), p) + oracleCost(sum(b), p) - oracleCost(oracleSum(sum(a), sum(b)), p)
	}
	for class := range classes {
		var live [][]int
		for c := range 32 {
			if oracleCost(counts[class*32+c], 0) != 12*65536 {
				live = append(live, []int{class*32 + c})
			}
		}
		for len(live) > 1 {
			at, best := 0, int64(0)
			for i := range len(live) - 1 {
				if g := gain(live[i], live[i+1]); i == 0 || g > best {
					at, best = i, g
				}
			}
			if best < 0 {
				break
			}
			live[at] = append(append([]int(nil), live[at]...), live[at+1]...)
			live = append(live[:at+1], live[at+2:]...)
		}
		sets = append(sets, live...)
	}
	for len(sets) > 1 {
		bi, bj, best := 0, 0, int64(0)
		for i := range sets {
			for j := i + 1; j < len(sets); j++ {
				if g := gain(sets[i], sets[j]); bj == 0 || g > best {
					bi, bj, best = i, j, g
				}
			}
		}
		if best < 0 && len(sets) <= 32 {
			break
		}
		sets[bi] = append(append([]int(nil), sets[bi]...), sets[bj]...)
		sets = append(sets[:bj], sets[bj+1:]...)
	}
	cost := lists
	owner := map[int]uint8{}
	for k, set := range sets {
		cost += oracleCost(sum(set), p)
		clusters = append(clusters, sum(set))
		for _, c := range set {
			owner[c] = uint8(k)
		}
	}
	if cost >= without {
		return nil, nil
	}
	k := uint8(0)
	for c := range counts {
		if o, ok := owner[c]; ok {
			k = o
		}
		contextMap = append(contextMap, k)
	}
	return contextMap, clusters
}

func TestBuildClassedAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	used, refused := 0, 0
	for i := range 40 {
		classes := 2 + rng.IntN(7)
		ix, list := rowsOfClasses(rng, classes, 30+rng.IntN(200), 16+rng.IntN(100), []float64{0, 0.3, 1, 4}[i%4])
		spec := ParamSpec{ContextPart: contextClass, Classes: classes, A: 60}
		require.Equal(t, 32*classes, spec.Contexts())
		h := histogramOf(ix, spec.Contexts(), spec.A)
		contextMap, clusters := oracleClassed(denseCounts(ix, spec.Contexts(), spec.A), list, classes)
		got := BuildClassed(h, spec, list)
		if contextMap == nil {
			require.Nil(t, got, "case %d", i)
			refused++
			for k, v := range ix {
				ix[k] = v & (32<<8 - 1)
			}
			flat := ParamSpec{ContextPart: contextExponent, A: 60}
			require.Equal(t, Build(histogramOf(ix, 32, 60), flat), Build(h, flat), "what is left counts without classes")
			continue
		}
		require.NotNil(t, got, "case %d", i)
		used++
		require.Equal(t, contextMap, got.ContextMap)
		require.Len(t, got.Freq, len(clusters))
		require.Equal(t, list, got.ClassList)
		require.Equal(t, classes, got.Classes)
		entropy := uint64(0)
		for _, c := range clusters {
			entropy += oracleEntropy(c)
		}
		require.Equal(t, entropy, got.Bits16)
		checkFrequencies(t, got, spec.A)

		back, err := ReadClassedSide(got.WriteSide(), spec.A, got.TableLog, classes, len(list))
		require.NoError(t, err)
		got.Bits16, got.Total = 0, 0
		require.Equal(t, got, back)
	}
	assert.Greater(t, used, 10)
	assert.Greater(t, refused, 5)
	assert.Nil(t, BuildClassed(histogramOf(nil, 64, 60), ParamSpec{ContextPart: contextClass, Classes: 2, A: 60}, []uint8{0, 1}))
}

func TestClassesOutOfRange(t *testing.T) {
	list := []uint8{0, 2, 1, 2}
	tables := tablesOf(1, 11, make([]uint8, 96), [][]uint8{{29, 3, 0, 1}})
	tables.Classes, tables.ClassList = 3, list
	side := tables.WriteSide()
	_, err := ReadClassedSide(side, 4, 11, 3, 4)
	require.NoError(t, err)
	_, err = ReadClassedSide(side, 4, 11, 2, 4)
	assert.ErrorIs(t, err, errClass)
	_, err = ReadClassedSide(side, 4, 11, 3, 5)
	assert.Error(t, err)

	// Class 7 of 8 is the last.
	var e sidecoder.Encoder
	var cx sideContexts
	e.Raw(mantissaBits, 0)
	e.Tree(cx.class[0][:], classBits, 7)
	_, err = ReadClassedSide(e.Finish(), 4, 11, 7, 1)
	assert.ErrorIs(t, err, errClass)
}

func TestChangedRows(t *testing.T) {
	tables := tablesOf(2, 11, []uint8{0, 0, 0}, [][]uint8{{50, 20, 0, 9}, {57, 0, 0, 0}, {57, 0, 1, 0}, {0, 3, 4, 5}})
	rows := tables.ChangedRows(12)
	require.Len(t, rows, 4)
	assert.Equal(t, oracleNormalize([]uint8{0, 20, 0, 9}, 2, 12), rows[0])
	assert.Nil(t, rows[1])
	assert.Equal(t, []uint16{1, 0, 4095, 0}, rows[2])
	assert.Equal(t, oracleNormalize([]uint8{0, 3, 4, 5}, 2, 12), rows[3])
}

// The scale of the gaps against the definition, and against the geometric distribution that it stands for.
func TestGapScale(t *testing.T) {
	oracle := func(changed, same uint64) int {
		share := same << 32 / (changed + same)
		s := func(i int) uint64 {
			h := ((i % 2) + 2) % 2
			return oracleSurvival(0, h, 4, -(i+h)/2).Uint64()
		}
		for i := -32; i < 160; i++ {
			if 2*share <= s(i)+s(i+1) {
				return i
			}
		}
		return 160
	}
	for _, c := range [][2]uint64{{1, 0}, {1 << 18, 0}, {1, 1}, {1, 1 << 18}, {7, 3}, {3, 7}, {1, 99}, {2, 300000}, {100, 1}, {1, 3}} {
		assert.Equal(t, oracle(c[0], c[1]), GapScale(c[0], c[1]), c)
	}
	for _, mean := range []float64{0.5, 1, 3, 10, 100, 5000} {
		sc := GapScale(50, uint64(50*mean))
		want := 1 / math.Log2((mean+1)/mean) // survival falls by half every so many steps
		assert.InDelta(t, math.Log2(want)*2, float64(sc), 0.55, mean)
	}
}
