package blob

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

func TestSparseTensors(t *testing.T) {
	for _, code := range []uint8{1, 2, 3, 19, 21} {
		d := lookup(t, code)
		for _, n := range []int{2, 100, 9000, 70000, 2*dtype.ChunkElements + 3, 5*dtype.ChunkElements + 1} {
			for _, every := range []int{5, 10, 20, 300, 20000} {
				_, ref := pair(d, n, false, uint64(n))
				target := append([]byte(nil), ref...)
				rng := testkit.Rand(uint64(every))
				for i := 0; i < n; i += 1 + rng.IntN(2*every) {
					testkit.PutLane(target, i, d.Width, testkit.Lane(ref, i, d.Width)+1+rng.Uint64N(30))
				}
				in := Input{Geometry: vector(t, d, n), Target: target, Ref: ref}
				blob, r := codes(t, in)
				if r.Plan != PlanCoded || n < 9000 || r.Detail.Tables != tablesOwn || r.Detail.PlaneBits != 0 {
					continue
				}
				want := uint8(bodyCoded)
				if every >= 20 {
					want = bodySparse
				}
				assert.Equal(t, want, kinds(t, in, &r, blob)[0], "%s of %d, one in %d", d.Name, n, every)
			}
		}
	}
}

// Chunks of every kind in one tensor.
func TestSparseAmongOthers(t *testing.T) {
	d := lookup(t, 1)
	n := 6 * dtype.ChunkElements
	target, ref := pair(d, n, false, 1)
	size := 2 * dtype.ChunkElements
	for j := range 6 {
		from := j * size
		switch j {
		case 0, 3, 5:
			copy(target[from:from+size], ref[from:])
			if j != 3 {
				spoil(target[from:from+size], 16, 1000)
			}
		case 2, 4:
			copy(target[from:from+size-20000*j], ref[from:])
		}
	}
	copy(target[size:2*size], ref[size:])
	in := Input{Geometry: vector(t, d, n), Target: target, Ref: ref}
	blob, r := codes(t, in)
	assert.Equal(t, []uint8{bodySparse, bodyUnchanged, bodyCoded, bodyUnchanged, bodyCoded, bodySparse}, kinds(t, in, &r, blob))
}
