package testkit

import (
	"testing"

	"github.com/ulpack/ulpack/go/internal/cpu"
)

// EachKernel runs f as a subtest with every kernel set that this processor and build have: generic, then the assembly.
func EachKernel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("generic", func(t *testing.T) {
		defer cpu.Use(0)()
		f(t)
	})
	last := "generic"
	for _, set := range []cpu.Set{cpu.AVX2, cpu.AVX2 | cpu.AVX512, cpu.NEON} {
		restore := cpu.Use(set)
		if name := cpu.Selected(); name != last && cpu.Available()&set == set {
			last = name
			t.Run(name, f)
		}
		restore()
	}
}
