//go:build (amd64 || arm64) && !nounsafe

package le

import "unsafe"

// Checked tells whether the functions of this package check bounds.
const Checked = false

// Load returns lane value i of b: the bytes from i*sizeof(T) on, which must lie within b.
func Load[T Lane](b []byte, i int) T {
	var v T
	return *(*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i*int(unsafe.Sizeof(v))))
}

// Store sets lane value i of b.
func Store[T Lane](b []byte, i int, v T) {
	*(*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i*int(unsafe.Sizeof(v)))) = v
}

// Load16 returns the two bytes of b from offset off on.
func Load16(b []byte, off int) uint16 {
	return *(*uint16)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off))
}

// Load64 returns the eight bytes of b from offset off on.
func Load64(b []byte, off int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off))
}

// Store16 sets the two bytes of b from offset off on.
func Store16(b []byte, off int, v uint16) {
	*(*uint16)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off)) = v
}

// Store64 sets the eight bytes of b from offset off on.
func Store64(b []byte, off int, v uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off)) = v
}

// At returns table[i], where i must lie within table.
func At[T any](table []T, i int) T {
	var v T
	return *(*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(table)), i*int(unsafe.Sizeof(v))))
}
