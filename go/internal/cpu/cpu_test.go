package cpu

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run that is meant to test certain kernels must not pass without them.
func TestRequiredKernels(t *testing.T) {
	if want := os.Getenv("ULPACK_TEST_REQUIRE_KERNELS"); want != "" {
		require.Equal(t, want, Selected())
	}
}

func TestUse(t *testing.T) {
	before := Selected()
	restore := Use(0)
	assert.Equal(t, "generic", Selected())
	restore()
	assert.Equal(t, before, Selected())

	restore = Use(AVX512) // without AVX2 it is not complete
	assert.Equal(t, "generic", Selected())
	restore()
	if Available()&AVX2 != 0 {
		restore = Use(AVX2)
		assert.Equal(t, "avx2", Selected())
		restore()
	}
}

func TestAllowed(t *testing.T) {
	assert.Equal(t, Set(0), allowed("generic"))
	assert.Equal(t, AVX2, allowed("avx2"))
	assert.Equal(t, AVX2|AVX512, allowed("avx512"))
	assert.Equal(t, NEON, allowed("neon"))
	assert.Equal(t, ^Set(0), allowed(""))
}
