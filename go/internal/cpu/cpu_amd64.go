//go:build !purego

package cpu

import "github.com/klauspost/cpuid/v2"

// detect asks cpuid/v2, which looks at the operating system's support (XCR0) as well.
func detect() (s Set) {
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.BMI1, cpuid.BMI2, cpuid.POPCNT) {
		s |= AVX2
		if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.AVX512CD, cpuid.AVX512VBMI) {
			s |= AVX512
		}
	}
	return s
}
