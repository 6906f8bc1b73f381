package blob

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// Every width, number of bits and direction, lane value by lane value.
func TestNarrowAndWiden(t *testing.T) {
	for _, code := range []uint8{1, 2, 3, 4, 25, 26, 27} {
		d := lookup(t, code)
		edges := testkit.Edges(d.Width, true, d.ExpBits, d.MantBits)
		src := make([]byte, len(edges)*d.Width/8)
		_, ok := narrowed(&d, 0)
		require.False(t, ok)
		_, ok = narrowed(&d, d.MantBits-1)
		require.False(t, ok)
		for drop := 1; drop <= d.MantBits-2; drop++ {
			lane, ok := narrowed(&d, drop)
			require.True(t, ok)
			require.GreaterOrEqual(t, lane.Width, d.Width-drop)
			require.Less(t, max(lane.Width/2, 8), max(d.Width-drop, 9))
			for i, v := range edges {
				testkit.PutLane(src, i, d.Width, v)
			}
			short := make([]byte, len(edges)*lane.Width/8)
			narrow(short, src, d.Width, lane.Width, drop)
			back := make([]byte, len(src))
			widen(back, short, d.Width, lane.Width, drop)
			for i, v := range edges {
				top := uint64(1) << (d.Width - 1)
				want := v&(top-1)>>drop | v>>(d.Width-1)<<(lane.Width-1)
				require.Equal(t, want, testkit.Lane(short, i, lane.Width), "%s, %d bits of %#x", d.Name, drop, v)
				require.Equal(t, v>>drop<<drop, testkit.Lane(back, i, d.Width), "%s, %d bits of %#x", d.Name, drop, v)
			}
		}
	}
}

func TestNarrowTensors(t *testing.T) {
	for _, c := range []struct {
		code uint8
		drop int
	}{{3, 16}, {3, 13}, {3, 3}, {3, 21}, {4, 29}, {4, 45}, {4, 2}, {1, 2}, {2, 3}, {26, 16}, {27, 29}, {25, 5}} {
		d := lookup(t, c.code)
		for _, n := range []int{3, 1000, 9000, d.ChunkElems() + 5} {
			for _, wild := range []bool{false, true} {
				for _, withRef := range []bool{true, false} {
					target, ref := pair(d, n, wild, uint64(n+c.drop))
					lanes := n * d.Components
					for i := range lanes {
						testkit.PutLane(target, i, d.Width, testkit.Lane(target, i, d.Width)>>c.drop<<c.drop)
						testkit.PutLane(ref, i, d.Width, testkit.Lane(ref, i, d.Width)>>c.drop<<c.drop|uint64(i%2))
					}
					testkit.PutLane(target, 0, d.Width, 1<<c.drop) // not more than these
					in := Input{Geometry: vector(t, d, n), Target: target, Ref: ref}
					if !withRef {
						in.Ref = nil
					}
					_, r := codes(t, in)
					if n < 1000 || r.Plan == PlanStored && wild {
						continue
					}
					require.EqualValues(t, PlanNarrow, r.Plan, "%s of %d without %d bits, wild %t, reference %t", d.Name, n, c.drop, wild, withRef)
					require.Equal(t, c.drop, r.Detail.DroppedBits)
				}
			}
		}
	}
}

// A float32 that holds bfloat16 takes about what the bfloat16 does.
func TestNarrowIsWorthIt(t *testing.T) {
	f32, bf16 := lookup(t, 3), lookup(t, 1)
	n := 5 * dtype.ChunkElements
	target, ref := testkit.Float(n, 16, 8, 7, 0.01, 1)
	for _, few := range []bool{false, true} {
		if few {
			for i := range n {
				if i%100 != 0 {
					copy(target[2*i:2*i+2], ref[2*i:])
				}
			}
		}
		wide, wideRef := make([]byte, 4*n), make([]byte, 4*n)
		widen(wide, target, 32, 16, 16)
		widen(wideRef, ref, 32, 16, 16)
		short, _ := codes(t, Input{Geometry: vector(t, bf16, n), Target: target, Ref: ref})
		in := Input{Geometry: vector(t, f32, n), Target: wide, Ref: wideRef}
		long, r := codes(t, in)
		assert.EqualValues(t, PlanNarrow, r.Plan)
		assert.Len(t, long, len(short)+1)
		if few {
			assert.EqualValues(t, bodySparse, kinds(t, in, &r, long)[0])
		}
	}
}
