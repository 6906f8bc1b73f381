package dtype

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	last := 0
	for _, d := range All() {
		assert.Greater(t, int(d.Code), last, d.Name)
		last = int(d.Code)
		assert.False(t, seen[d.Name], d.Name)
		seen[d.Name] = true
		assert.Equal(t, d.ItemSize*8, d.Components*d.Width, d.Name)
		if d.Float {
			assert.Equal(t, d.Width, 1+d.ExpBits+d.MantBits, d.Name)
		} else {
			assert.Zero(t, d.ExpBits+d.MantBits, d.Name)
		}
		got, ok := Lookup(d.Code)
		assert.True(t, ok)
		assert.Equal(t, d, got)
		assert.Equal(t, ChunkElements, d.ChunkElems())
	}
	assert.Len(t, seen, 22)
}

func TestReservedCodes(t *testing.T) {
	for _, c := range []uint8{0, 9, 15, 30, 255} {
		_, ok := Lookup(c)
		assert.False(t, ok, c)
	}
}

func TestNamed(t *testing.T) {
	for itemSize, elems := range map[int]int{1: 1 << 18, 3: 87381, 1 << 18: 1, 1<<18 - 1: 1, 1<<17 + 1: 1, 1 << 20: 1} {
		d := Named("posit", itemSize)
		assert.Equal(t, elems, d.ChunkElems(), itemSize)
		assert.Equal(t, itemSize*8, d.Components*d.Width)
	}
}
