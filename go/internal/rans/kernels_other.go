//go:build !amd64 || purego

package rans

// Without assembly there are no kernels, and these are not called.
const kernelLanes = MaxLanes + 1

func hasKernel() bool { return false }

func (d *DecTables) decodeKernel(_, _ []uint8, _ []byte, _ *Decoder) int { panic("no kernel") }

func (e *EncTables) encodeKernel(_ []uint16, _ *[32]uint32, _ []uint32, _ []byte) int {
	panic("no kernel")
}
