// Package cpu chooses the kernels: which assembly the processor, the environment and the build allow.
//
// The build tag purego leaves all assembly out. The environment variable ULPACK_KERNELS, read once at start, narrows the choice to
// generic, avx2, avx512 or neon (a set the processor lacks counts as generic). The results of all kernels are the same bytes.
package cpu

import "os"

// Set is a set of kernels.
type Set uint32

// The kernel sets.
const (
	AVX2   Set = 1 << iota // AVX2 and BMI2
	AVX512                 // AVX-512 F, BW, DQ, VL, CD and VBMI, and what AVX2 asks
	NEON
)

// HasAVX2, HasAVX512 and HasNEON tell which kernels to use. HasAVX512 implies HasAVX2. They change in Use only.
var HasAVX2, HasAVX512, HasNEON bool

var available = detect()

func init() { apply(available & allowed(os.Getenv("ULPACK_KERNELS"))) }

func allowed(name string) Set {
	switch name {
	case "generic":
		return 0
	case "avx2":
		return AVX2
	case "avx512":
		return AVX2 | AVX512
	case "neon":
		return NEON
	default:
		return ^Set(0)
	}
}

func apply(s Set) {
	HasAVX2, HasAVX512, HasNEON = s&AVX2 != 0, s&AVX512 != 0 && s&AVX2 != 0, s&NEON != 0
}

// Available returns what the processor and the build offer.
func Available() Set { return available }

// Use narrows the kernels to those in s that are available, and returns a function that restores the choice before. It is for tests and
// benchmarks, while no kernel runs.
func Use(s Set) (restore func()) {
	a, b, c := HasAVX2, HasAVX512, HasNEON
	apply(available & s)
	return func() { HasAVX2, HasAVX512, HasNEON = a, b, c }
}

// Selected names the best kernel set in use: avx512, avx2, neon or generic.
func Selected() string {
	switch {
	case HasAVX512:
		return "avx512"
	case HasAVX2:
		return "avx2"
	case HasNEON:
		return "neon"
	default:
		return "generic"
	}
}
