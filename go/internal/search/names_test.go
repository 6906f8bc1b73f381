package search

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNames(t *testing.T) {
	assert.Equal(t, []string{"model", "layers", "0", "w"}, components("model/layers.0..w"))
	assert.Empty(t, components(""))
	assert.Equal(t, 2, sameEnd("a.b.w", "x/b.w"))
	assert.Equal(t, 0, sameEnd("a.b.w", "a.b.v"))
	assert.Equal(t, 3, sameEnd("a.b.w", "a.b.w"))
	assert.Equal(t, 0, sameEnd("", "a"))
	assert.Equal(t, 10, alike("exp_avg.10", "exp_avg_sq.10"))
	assert.Equal(t, 3, alike("aaa", "aaaa"), "nothing counts twice")
	assert.Equal(t, 4, alike("abcd", "abxcd"))
	assert.Equal(t, 0, alike("", "x"))
}

func TestIndex(t *testing.T) {
	x := make(index)
	names := []string{"state.0.exp_avg", "state.0.exp_avg_sq", "state.1.exp_avg", "state.0", "other.0.exp_avg"}
	for i, name := range names {
		x.addHoles(name, i)
	}
	got := map[int]bool{}
	x.siblings("state.0.exp_avg", func(i int) { got[i] = true })
	assert.Equal(t, map[int]bool{0: true, 1: true, 2: true, 4: true}, got)

	y := make(index)
	for i, name := range []string{"a.x.w", "b.x.w", "b.y.w", "w"} {
		y.addEnds(name, i)
	}
	var order []int
	y.ends("c.x.w", func(i int) bool { order = append(order, i); return true })
	assert.Equal(t, []int{0, 1}, order)
	order = nil
	y.ends("c.x.w", func(i int) bool { order = append(order, i); return i > 1 })
	assert.Equal(t, []int{0, 1, 0, 1, 2, 3}, order, "the next shorter end where none counts")
	for range 2 * maxChoice {
		y.add("many", 1)
	}
	assert.Len(t, y["many"], maxChoice)
}
