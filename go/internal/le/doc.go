// Package le holds every unaligned little-endian load and store of the kernels.
//
// On little-endian processors the functions go through unsafe and check nothing: a caller proves once per block that its accesses
// stay inside. The build tag nounsafe (and any other processor) selects bounds-checked versions, which tests run as well.
package le

// Lane is a lane value: the unsigned image of 8, 16, 32 or 64 bits.
type Lane interface {
	uint8 | uint16 | uint32 | uint64
}
