package container

import (
	"bytes"
	"encoding/binary"

	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/sidecoder"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// crafted is a file in parts, for files that no encoder writes but whose checksums hold.
type crafted struct {
	plain []byte // directory
	ratio uint32 // stated length of the directory, if not 0
	blobs []byte // with plans and lengths
	tail  []byte
	minor uint8
}

func (c *crafted) file() []byte {
	coded := sidecoder.EncodeText(c.plain)
	b := append([]byte(magic), MajorFormat, c.minor, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(coded)))
	n := uint32(len(c.plain))
	if c.ratio != 0 {
		n = c.ratio
	}
	b = binary.LittleEndian.AppendUint32(b, n)
	b = binary.LittleEndian.AppendUint32(b, frontChecksum(b[8:], coded))
	b = append(append(b, coded...), c.blobs...)
	return append(b, marshalEnd(bytes.Clone(c.tail), uint64(len(b)))...)
}

// one is a valid file of one coded float32 tensor "x" of n elements in parts, with its target and reference.
func one(t testing.TB, n int) (c crafted, d *Directory, data Data) {
	d, data = oneTensor(t, n)
	var b bytes.Buffer
	_, _, err := Save(&b, d, []Data{data}, SaveOptions{Options: Options{Threads: 1}})
	require.NoError(t, err)
	x, err := ReadIndex(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	e := &x.Tensors[0].Tail
	c.minor = MinorFormat
	c.plain = d.marshal()
	c.blobs = b.Bytes()[e.Offset-e.prefixSize() : e.Offset+e.NBytes]
	c.tail = marshalTail(x.Tensors)
	require.Equal(t, b.Bytes(), c.file())
	return c, d, data
}

func oneTensor(t testing.TB, n int) (*Directory, Data) {
	f32, ok := dtype.Lookup(3)
	require.True(t, ok)
	g, err := blob.NewGeometry(f32, []uint64{uint64(n)})
	require.NoError(t, err)
	d := &Directory{Encoder: 1, Effort: 2, Tensors: []Entry{{Name: "x", Geometry: g, HasReference: true, RefName: "x"}}}
	data := Data{make([]byte, 4*n), make([]byte, 4*n)}
	for i := range n {
		v := uint32(0x3c000000) + uint32(i)*2654435761>>5
		binary.LittleEndian.PutUint32(data.Ref[4*i:], v)
		binary.LittleEndian.PutUint32(data.Target[4*i:], v+uint32(i%37)*uint32(i%11))
	}
	return d, data
}

// loadOne loads the whole of tensor 0.
func loadOne(file []byte, nbytes int, ref []byte) error {
	item := Item{Ref: ref, Out: make([]byte, nbytes), Count: All}
	return Load(bytes.NewReader(file), int64(len(file)), []Item{item}, LoadOptions{Options: Options{Threads: 1}})
}

// directoryOf returns, for format version 1.0, the plain directory of one tensor with these raw fields.
func directoryOf(name string, dtypeField, shapeField, refField []byte) []byte {
	b := wire.AppendVarint(nil, 1)
	b = wire.AppendVarint(b, 2)
	b = append(b, 0, 0, 1)
	b = wire.AppendString(b, name)
	b = append(b, dtypeField...)
	b = append(b, shapeField...)
	return append(b, refField...)
}

func varints(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}
