//go:build !amd64 || purego

package rans

// Without assembly there are no kernels, and those below are not called.
const kernelLanes = MaxLanes + 1

func hasKernel() bool { return false }

func (d *DecTables) decodeKernel(_, _ []uint8, _ []byte, _ *Decoder) int { return 0 }

func (e *EncTables) encodeKernel(_ []uint16, _ *[32]uint32, _ []uint32, _ []byte) int { return 0 }
