//go:build !amd64 || purego

package sparse

func hasKernels() bool { return false }

func countKernel(_ []uint8, _ uint8) int { panic("no kernel") }

func placesKernel(_, _ []uint32, _ []uint8, _ uint8) { panic("no kernel") }

func ranksKernel(_, _ []uint32, _ []uint8, _ uint8) { panic("no kernel") }

func changedKernel(_ []uint64, _, _ []byte, _ int) { panic("no kernel") }
