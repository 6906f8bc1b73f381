package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ulpack/ulpack/go/internal/fault"
)

func TestVarint(t *testing.T) {
	for _, v := range []uint64{0, 1, 127, 128, 16383, 16384, 1<<56 - 1, 1 << 56, MaxVarint} {
		b := AppendVarint(nil, v)
		assert.Len(t, b, VarintLen(v))
		r := NewReader(b)
		assert.Equal(t, v, r.Varint())
		assert.NoError(t, r.Err())
		assert.Zero(t, r.Len())
		for n := range b {
			r := NewReader(b[:n])
			r.Varint()
			assert.True(t, r.Ended())
		}
	}
	assert.Len(t, AppendVarint(nil, MaxVarint), MaxVarintLen)
	for name, b := range map[string][]byte{
		"zero in two bytes":  {0x80, 0},
		"seven in two bytes": {0x87, 0},
		"2^63":               AppendVarint(nil, 1<<63),
		"2^64 - 1":           AppendVarint(nil, math.MaxUint64),
		"eleven bytes":       {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1},
	} {
		r := NewReader(b)
		assert.Zero(t, r.Varint())
		assert.Equal(t, fault.KindCorrupt, fault.From(r.Err()).Kind, name)
		assert.False(t, r.Ended())
	}
}

func TestReader(t *testing.T) {
	b := AppendString([]byte{1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}, "name")
	r := NewReader(b)
	assert.EqualValues(t, 1, r.U8())
	assert.EqualValues(t, 2, r.U32())
	assert.EqualValues(t, 3, r.U64())
	assert.Equal(t, "name", string(r.Bytes(r.Varint())))
	assert.NoError(t, r.Err())
	assert.Equal(t, len(b), r.Offset())
	assert.Zero(t, r.U8())
	assert.True(t, r.Ended())
	assert.Zero(t, r.U64()+uint64(r.U32())+r.Varint())

	r = NewReader(b)
	assert.Nil(t, r.Bytes(1<<63), "a length beyond the end")
	assert.True(t, r.Ended())
}
