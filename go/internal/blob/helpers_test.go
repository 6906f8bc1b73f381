package blob

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/cpu"
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// shaped is a geometry of these dimensions.
func shaped(t testing.TB, d dtype.Info, shape ...uint64) Geometry {
	g, err := NewGeometry(d, shape)
	require.NoError(t, err)
	return g
}

// codes codes a value as a small and as a large tensor, requires the same bytes unless one of them is stored, and returns what
// the file would hold.
func codes(t testing.TB, in Input) ([]byte, Result) {
	t.Helper()
	s := GetScratch()
	defer s.Release()
	large, e := encodeLarge(s, in)
	result := e.Result()
	decodes(t, s, in, large, &result)
	if in.Geometry.Chunks() > SmallChunks {
		return large, result
	}
	small, other := s.Encode(nil, in, func(b []byte, _ Result) []byte { return b })
	if result.Plan == other.Plan {
		require.Equal(t, other, result)
		require.True(t, bytes.Equal(small, large), "the small and the large path differ")
		return small, other
	}
	require.Contains(t, []uint8{result.Plan, other.Plan}, uint8(PlanStored))
	decodes(t, s, in, small, &other)
	return small, other
}

// decodes requires that a blob decodes to the value with every kernel set.
func decodes(t testing.TB, s *Scratch, in Input, blob []byte, result *Result) {
	t.Helper()
	require.EqualValues(t, len(blob), result.NBytes)
	r := recordOf(in, result)
	for _, set := range testkit.KernelSets() {
		restore := cpu.Use(set)
		for _, inPlace := range []bool{false, true} {
			out, err := decode(s, in.Geometry, r, blob, values(in, &r), inPlace)
			require.NoError(t, err)
			require.True(t, bytes.Equal(in.Target, out), "another value comes back")
		}
		restore()
	}
}

// recordOf is what a file says about a blob.
func recordOf(in Input, r *Result) Record {
	return Record{Minor: 1, Plan: r.Plan, NBytes: r.NBytes, Fingerprint: in.Geometry.Fingerprint(in.Target), Slots: r.Slots}
}

// values are the tensors that the slots of a record mean.
func values(in Input, r *Record) (list [][]byte) {
	var known []Slot
	for _, p := range in.Proposals {
		known = append(known, p.Slots...)
	}
	if in.Beside != nil {
		known = append(known, *in.Beside)
	}
	known = append(known, Slot{Role: RoleReference, Data: in.Ref})
	for _, x := range r.Slots {
		for _, k := range known {
			if k.Role == x.Role && k.Tensor == x.Tensor {
				list = append(list, k.Data)
				break
			}
		}
	}
	return list
}

// decode decodes all chunks, in place over the own reference if there is one and inPlace is set.
func decode(s *Scratch, g Geometry, r Record, blob []byte, slots [][]byte, inPlace bool) ([]byte, error) {
	d := s.Decoder()
	err := d.Open(g, r, func(from, to uint64) ([]byte, error) { return blob[from:to:to], nil })
	if err != nil {
		return nil, err
	}
	if err := d.CheckConstant(s); err != nil {
		return nil, err
	}
	out := make([]byte, g.NBytes())
	if inPlace {
		slots = bytesClone(slots)
		for i := range r.Slots {
			if r.Slots[i].Role == RoleReference {
				out = slots[i]
			}
		}
	}
	for j := range g.Chunks() {
		from, to := g.Chunk(j)
		size := uint64(g.DType.ItemSize)
		var chunks [][]byte
		for i := range r.Slots {
			other := uint64(r.Slots[i].DType.ItemSize)
			chunks = append(chunks, slots[i][from/size*other:to/size*other])
		}
		first, last := d.Extent(j)
		if err := d.Chunk(j, out[from:to:to], chunks, blob[first:last:last], s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func bytesClone(list [][]byte) [][]byte {
	clone := make([][]byte, len(list))
	for i := range list {
		clone[i] = bytes.Clone(list[i])
	}
	return clone
}
