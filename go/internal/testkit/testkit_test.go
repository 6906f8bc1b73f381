package testkit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRound(t *testing.T) {
	for _, v := range []float64{0, math.Copysign(0, -1), 1, -1.5, 0.1, 3.14159e-39, 1e-45, -7e-46, 1e39, 3.4028235e38, 1.17549435e-38} {
		assert.Equal(t, uint64(math.Float32bits(float32(v))), Round(v, 8, 23), v)
	}
	assert.Equal(t, uint64(0x3c00), Round(1, 5, 10))
	assert.Equal(t, uint64(0x7bff), Round(65504, 5, 10))
	assert.Equal(t, uint64(0x7c00), Round(65520, 5, 10))
	assert.Equal(t, uint64(0x0001), Round(math.Ldexp(1, -24), 5, 10))
	assert.Equal(t, uint64(0xbf80), Round(-1, 8, 7))
	assert.Equal(t, math.Float64bits(0.1), Round(0.1, 11, 52))
}

func TestLanes(t *testing.T) {
	for _, width := range []int{8, 16, 32, 64} {
		b := make([]byte, 3*width/8)
		PutLane(b, 1, width, 0x8877665544332211)
		assert.Equal(t, uint64(0x8877665544332211)&(math.MaxUint64>>(64-width)), Lane(b, 1, width))
		assert.Zero(t, Lane(b, 0, width)+Lane(b, 2, width))
	}
}

func TestEdges(t *testing.T) {
	edges := Edges(16, true, 8, 7)
	for _, v := range []uint64{0, 0x8000, 1, 0x8001, 0x7f80, 0xff80, 0x7fc0, 0x7fff, 0xffff, 0x7f7f, 0x0080, 0x007f, 0x3f80} {
		assert.Contains(t, edges, v)
	}
}

type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }

func TestGuard(t *testing.T) {
	g := Guard(5, 1, 7)
	assert.Equal(t, []byte{7, 7, 7, 7, 7}, g.Bytes())
	assert.Equal(t, 5, cap(g.Bytes()))
	f := &failing{TB: t}
	g.Check(f)
	assert.False(t, f.failed)
	g.all[canarySize+5] = 0
	g.Check(f)
	assert.True(t, f.failed)
}
