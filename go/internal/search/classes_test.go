package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// literalClasses is section 35 on the list of means.
func literalClasses(means []uint16) (list []uint8, n int) {
	sorted := slices.Sorted(slices.Values(means))
	var centres [8]int
	for i := range centres {
		centres[i] = int(sorted[(2*i+1)*len(means)/16])
	}
	class := func(m uint16) (best int) {
		for i, c := range centres {
			if abs(c-int(m)) < abs(centres[best]-int(m)) {
				best = i
			}
		}
		return best
	}
	for range 8 {
		var sum, size [8]int
		for _, m := range means {
			k := class(m)
			sum[k] += int(m)
			size[k]++
		}
		for i := range centres {
			if size[i] > 0 {
				centres[i] = sum[i] / size[i]
			}
		}
	}
	var used [8]bool
	for _, m := range means {
		used[class(m)] = true
	}
	var number [8]uint8
	for i, u := range used {
		if u {
			number[i] = uint8(n)
			n++
		}
	}
	for _, m := range means {
		list = append(list, number[class(m)])
	}
	return list, n
}

func TestClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 200 {
		means := make([]uint16, 16+rng.IntN(500))
		groups := 1 + rng.IntN(10)
		for i := range means {
			means[i] = uint16(min(100*rng.IntN(groups)+rng.IntN(1+rng.IntN(60)), maxMean-1))
		}
		want, n := literalClasses(means)
		got, m := Classes(means)
		require.Equal(t, n, m)
		require.Equal(t, want, got)
	}
	list, n := Classes(make([]uint16, 20))
	assert.Equal(t, 1, n)
	assert.Equal(t, make([]uint8, 20), list)
}

func TestRowsDiffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	tokens := func(spread float64, change float64) (ix []uint16) {
		for range 64 {
			scale := 5 * (1 + spread*rng.Float64())
			for range 128 {
				v := uint16(0)
				if rng.Float64() < change {
					v = uint16(1 + scale*rng.Float64())
				}
				ix = append(ix, 7<<8|v)
			}
		}
		return ix
	}
	assert.False(t, RowsDiffer(tokens(0, 1), 128))
	assert.True(t, RowsDiffer(tokens(2, 1), 128))
	assert.False(t, RowsDiffer(tokens(20, 0.05), 128), "few changes")
	assert.False(t, RowsDiffer(make([]uint16, 8192), 128))
}

func TestRowMean(t *testing.T) {
	assert.EqualValues(t, 16*(3+4*2+5)/2, RowMean([]uint16{2<<8 | 3, 5}))
	assert.EqualValues(t, maxMean-1, RowMean([]uint16{31<<8 | 255}))
}
