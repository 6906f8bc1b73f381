//go:build unix

package schedule

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// Memory that is not there, such as a mapped file that was cut, is an error and not the end of the process.
func TestMemoryFaultBecomesError(t *testing.T) {
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Munmap(page)) }()
	for _, threads := range []int{1, 3} {
		sum := 0
		err := Run(Options{Threads: threads, Window: 1}, steps(1, func(int) Step {
			return Step{Run: func(int) error {
				sum += int(page[7])
				return nil
			}}
		}))
		var e *fault.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, fault.KindIO, e.Kind)
	}
}
