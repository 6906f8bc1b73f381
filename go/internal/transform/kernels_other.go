//go:build !amd64 || purego

package transform

func hasKernels() bool { return false }

func splitKernel(_ kernel, _ []uint16, _, _ []byte, _ *RawWriter, _ *params) int {
	panic("no kernel")
}

func joinKernel(_ kernel, _, _ []byte, _ []uint8, _, _ []byte, _ *params) int { panic("no kernel") }

func (s *Spec) clustersKernel(_ []uint8, _ []byte, _ *[32]uint8) int { return 0 }

func largestToken(_ []uint8) int { panic("no kernel") }

func tokenSums(_ []uint8) (tailBits, zeros int) { panic("no kernel") }
