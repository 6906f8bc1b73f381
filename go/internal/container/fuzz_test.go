package container

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// FuzzDirectory parses any bytes as a directory: an error, or a directory that is written back as the same bytes.
func FuzzDirectory(f *testing.F) {
	c, _, _ := one(f, 10)
	f.Add(c.plain)
	f.Add(append(varints(1, 3, 0, 2), "xx\x02\x01a\x00\x00\x03rgb\x03\x1d\x02\x01\x04\x00\x01\x03bb"...))
	f.Fuzz(func(t *testing.T, plain []byte) {
		for minor := range uint8(MinorFormat + 1) {
			d := Directory{Minor: minor}
			if err := d.unmarshal(plain, 1<<10); err != nil {
				fault.From(err)
				continue
			}
			require.Equal(t, plain, d.marshal())
		}
	})
}

// FuzzTail parses any bytes as the tail of three tensors, likewise.
func FuzzTail(f *testing.F) {
	c, d, _ := one(f, 10)
	f.Add(bytes.Repeat(c.tail, 3), uint64(3*len(c.blobs)))
	f.Add(bytes.Repeat(make([]byte, 11), 3), uint64(6))
	f.Fuzz(func(t *testing.T, tail []byte, blobs uint64) {
		for minor := range uint8(MinorFormat + 1) {
			three := Directory{Minor: minor, Tensors: []Entry{d.Tensors[0], d.Tensors[0], d.Tensors[0]}}
			if minor > 0 {
				three.Order = []int{1, 2, 0}
			}
			if err := three.unmarshalTail(tail, 100, 100+blobs%(1<<62)); err != nil {
				continue
			}
			require.Equal(t, tail, marshalTail(three.Tensors))
		}
	})
}

// FuzzFile reads files whose checksums at the front and the end hold, whatever their parts say.
func FuzzFile(f *testing.F) {
	for _, n := range []int{0, 1, 10, 300} {
		c, _, _ := one(f, n)
		f.Add(c.plain, c.blobs, c.tail)
	}
	f.Fuzz(func(t *testing.T, plain, blobs, tail []byte) {
		for minor := range uint8(MinorFormat + 1) {
			readAnything(t, (&crafted{plain: plain, blobs: blobs, tail: tail, minor: minor}).file())
		}
	})
}

// readAnything reads a file in every way; no error may be internal.
func readAnything(t *testing.T, file []byte) {
	r := bytes.NewReader(file)
	x, err := ReadIndex(r, int64(len(file)))
	if err != nil {
		require.NotEqual(t, fault.KindInternal, fault.From(err).Kind, "%v", err)
		return
	}
	_, err = IndexJSON(r, int64(len(file)))
	require.NoError(t, err)
	for _, verifyOnly := range []bool{true, false} {
		var items []Item
		for i := range x.Tensors {
			n := x.Tensors[i].Geometry.NBytes()
			it := Item{Tensor: i, Count: All}
			if n <= 1<<16 {
				it.Ref, it.Out = make([]byte, n), make([]byte, n)
			} else if !verifyOnly {
				it.Count = 0
			}
			items = append(items, it)
		}
		opt := LoadOptions{Salvage: true, VerifyOnly: verifyOnly, Options: Options{Threads: 2}}
		require.NoError(t, Load(r, int64(len(file)), items, opt))
		for _, it := range items {
			if it.Err != nil {
				require.NotEqual(t, fault.KindInternal, fault.From(it.Err).Kind, "%v", it.Err)
			}
		}
	}
}
