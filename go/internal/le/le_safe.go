//go:build !(amd64 || arm64) || nounsafe

package le

import (
	"encoding/binary"
	"unsafe"
)

// Checked tells whether the functions of this package check bounds.
const Checked = true

// Load returns lane value i of b: the bytes from i*sizeof(T) on, which must lie within b.
func Load[T Lane](b []byte, i int) T {
	var v T
	switch unsafe.Sizeof(v) {
	case 1:
		return T(b[i])
	case 2:
		return T(binary.LittleEndian.Uint16(b[2*i:]))
	case 4:
		return T(binary.LittleEndian.Uint32(b[4*i:]))
	default:
		return T(binary.LittleEndian.Uint64(b[8*i:]))
	}
}

// Store sets lane value i of b.
func Store[T Lane](b []byte, i int, v T) {
	switch unsafe.Sizeof(v) {
	case 1:
		b[i] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b[2*i:], uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	default:
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
}

// Load16 returns the two bytes of b from offset off on.
func Load16(b []byte, off int) uint16 { return binary.LittleEndian.Uint16(b[off:]) }

// Load64 returns the eight bytes of b from offset off on.
func Load64(b []byte, off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }

// Store16 sets the two bytes of b from offset off on.
func Store16(b []byte, off int, v uint16) { binary.LittleEndian.PutUint16(b[off:], v) }

// Store64 sets the eight bytes of b from offset off on.
func Store64(b []byte, off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }

// At returns table[i], where i must lie within table.
func At[T any](table []T, i int) T { return table[i] }
