package blob

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// fuzzed are the values whose blobs FuzzDecode damages: one of each width and kind, with and without a reference.
func fuzzed(t testing.TB) (cases []fuzzCase) {
	for _, d := range []dtype.Info{lookup(t, 1), lookup(t, 3), lookup(t, 4), lookup(t, 5), lookup(t, 19), lookup(t, 23), lookup(t, 26), dtype.Named("rgb", 3)} {
		for _, n := range []int{1, 40, 300} {
			target, ref := pair(d, n, false, uint64(n))
			cases = append(cases, fuzzCase{vector(t, d, n), target, ref}, fuzzCase{vector(t, d, n), target, nil})
		}
	}
	d := lookup(t, 16)
	n := 2*dtype.ChunkElements + 9
	target, ref := make([]byte, n), make([]byte, n)
	target[7], target[n-1] = 1, 200
	return append(cases, fuzzCase{vector(t, d, n), target, ref}, fuzzCase{vector(t, d, n), target, nil})
}

type fuzzCase struct {
	g           Geometry
	target, ref []byte
}

// FuzzDecode decodes any bytes as the blob of a value, with no checksum in the way: the value itself or one error, and
// nothing else may happen.
func FuzzDecode(f *testing.F) {
	cases := fuzzed(f)
	s := GetScratch()
	for i, c := range cases {
		blob, r := s.Encode(nil, Input{Geometry: c.g, Target: c.target, Ref: c.ref}, func(b []byte, _ Result) []byte { return b })
		f.Add(uint8(i), r.Plan, len(r.Slots) > 0, blob)
	}
	f.Fuzz(func(t *testing.T, which, plan uint8, needsReference bool, blob []byte) {
		c := &cases[int(which)%len(cases)]
		if needsReference && c.ref == nil {
			return
		}
		r := record(&c.g, blob, c.target, c.ref, needsReference)
		r.Plan = plan
		out, err := decodeAll(s, c.g, r, blob, c.ref)
		if err == nil {
			require.True(t, bytes.Equal(c.target, out))
			return
		}
		e, ok := err.(*fault.Error)
		require.True(t, ok, "%T", err)
		require.Contains(t, []fault.Kind{fault.KindCorrupt, fault.KindUnsupported}, e.Kind, "%v", err)
	})
}

// FuzzAdditions does the same to blobs that use what format version 1.1 brought.
func FuzzAdditions(f *testing.F) {
	all := additions(f)
	delete(all, "classes") // large
	delete(all, "3 chunks")
	names := slices.Sorted(maps.Keys(all))
	s := GetScratch()
	var records []Record
	for i, name := range names {
		in := all[name]
		blob, r := s.Encode(nil, in, func(b []byte, _ Result) []byte { return b })
		f.Add(uint8(i), r.Plan, blob)
		records = append(records, recordOf(in, &r))
	}
	f.Fuzz(func(t *testing.T, which, plan uint8, blob []byte) {
		k := int(which) % len(names)
		in, r := all[names[k]], records[k]
		r.Plan, r.NBytes = plan, uint64(len(blob))
		out, err := decode(s, in.Geometry, r, blob, values(in, &r), which >= 128)
		if err == nil {
			require.True(t, bytes.Equal(in.Target, out))
			return
		}
		if slot := new(SlotError); errors.As(err, &slot) {
			return
		}
		e, ok := err.(*fault.Error)
		require.True(t, ok, "%T", err)
		require.Contains(t, []fault.Kind{fault.KindCorrupt, fault.KindUnsupported, fault.KindLimit}, e.Kind, "%v", err)
	})
}
