// Package wire reads and writes the byte-aligned fields of FORMAT.md section 1.
package wire

import (
	"encoding/binary"
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// MaxVarint is the largest value of a varint; MaxVarintLen its length.
const (
	MaxVarint    = 1<<63 - 1
	MaxVarintLen = 9
)

// AppendVarint appends v, which must not exceed MaxVarint, in its shortest form.
func AppendVarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// VarintLen returns the length of v as a varint.
func VarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// AppendString appends a varint length and the bytes.
func AppendString(dst []byte, s string) []byte {
	return append(AppendVarint(dst, uint64(len(s))), s...)
}

// Reader takes fields off the front of a byte string. After the first field that is not there or not allowed it returns
// zeros, so a caller may read a whole record and ask Err once.
type Reader struct {
	buf []byte
	at  int
	err *fault.Error
}

// NewReader reads buf, which it does not copy.
func NewReader(buf []byte) Reader { return Reader{buf: buf} }

// Err returns the first error, of kind corrupt or (the bytes ran out) truncated, or nil.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// Ended reports whether the first error is that the bytes ran out.
func (r *Reader) Ended() bool { return r.err != nil && r.err.Kind == fault.KindTruncated }

// Offset returns how many bytes were taken.
func (r *Reader) Offset() int { return r.at }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.buf) - r.at }

// Bytes takes n bytes. The slice shares memory with the input.
func (r *Reader) Bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(r.Len()) {
		r.err = fault.Truncated("a field of %d bytes does not fit in the %d that are left", n, r.Len())
		return nil
	}
	b := r.buf[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

// U8 takes a byte.
func (r *Reader) U8() uint8 {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// U32 takes a little-endian 32-bit value.
func (r *Reader) U32() uint32 {
	if b := r.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 takes a little-endian 64-bit value.
func (r *Reader) U64() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Varint takes a varint, which must have its shortest form.
func (r *Reader) Varint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.buf[r.at:])
	switch {
	case n == 0:
		r.err = fault.Truncated("a varint is cut off")
		return 0
	case n < 0 || v > MaxVarint || n != VarintLen(v):
		r.err = fault.Corrupt("a varint is not in its shortest form or is 2^63 or more")
		return 0
	}
	r.at += n
	return v
}
