package testkit

import (
	"testing"

	"github.com/ulpack/ulpack/go/internal/cpu"
)

// KernelSets lists the kernel sets that this processor and build have, the generic one first.
func KernelSets() []cpu.Set {
	sets := []cpu.Set{0}
	for _, set := range []cpu.Set{cpu.AVX2, cpu.AVX2 | cpu.AVX512, cpu.NEON} {
		if cpu.Available()&set == set {
			sets = append(sets, set)
		}
	}
	return sets
}

// EachKernel runs f as a subtest with every kernel set.
func EachKernel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, set := range KernelSets() {
		restore := cpu.Use(set)
		t.Run(cpu.Selected(), f)
		restore()
	}
}

// BenchKernel runs f as a sub-benchmark with every kernel set.
func BenchKernel(b *testing.B, f func(b *testing.B)) {
	b.Helper()
	for _, set := range KernelSets() {
		restore := cpu.Use(set)
		b.Run(cpu.Selected(), f)
		restore()
	}
}
