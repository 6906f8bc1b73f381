package le

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLoadStore(t *testing.T) {
	b := make([]byte, 40)
	for i := range b {
		b[i] = byte(i + 1)
	}
	u := b[1:] // unaligned on purpose
	assert.Equal(t, uint8(4), Load[uint8](u, 2))
	assert.Equal(t, uint16(0x0706), Load[uint16](u, 2))
	assert.Equal(t, uint32(0x0d0c0b0a), Load[uint32](u, 2))
	assert.Equal(t, uint64(0x1918171615141312), Load[uint64](u, 2))
	assert.Equal(t, uint16(0x0504), Load16(u, 2))
	assert.Equal(t, uint64(0x0b0a090807060504), Load64(u, 2))

	Store[uint8](u, 0, 0xaa)
	Store[uint16](u, 1, 0xbbcc)
	Store[uint32](u, 1, 0x11223344)
	Store[uint64](u, 1, 0x0102030405060708)
	Store16(u, 16, 0x5566)
	Store64(u, 18, 0x1112131415161718)
	assert.Equal(t, []byte{1, 0xaa, 3, 0xcc, 0xbb, 0x44, 0x33, 0x22, 0x11, 8, 7, 6, 5, 4, 3, 2, 1, 0x66, 0x55,
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 28}, b[:28])
	assert.Equal(t, uint32(9), At([]uint32{7, 8, 9}, 2))
}
