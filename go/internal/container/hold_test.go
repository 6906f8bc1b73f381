package container

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/blob"
)

// Coded chunks that do not fit the memory for waiting ones are coded again: the same bytes.
func TestHoldDoesNotChangeBytes(t *testing.T) {
	var want []byte
	for _, hold := range []int{1 << 30, 0, 1 << 19, 2 << 20} {
		for _, threads := range []int{1, 3} {
			a, data := oneTensor(t, 9<<18)
			b, more := oneTensor(t, 6<<18+7)
			c, few := oneTensor(t, 50)
			b.Tensors[0].Name, c.Tensors[0].Name = "y", "z"
			a.Tensors = append(a.Tensors, b.Tensors[0], c.Tensors[0])
			var file bytes.Buffer
			results, written, err := save(&file, a, []Data{data, more, few}, Options{Threads: threads}, hold)
			require.NoError(t, err)
			require.EqualValues(t, file.Len(), written)
			require.EqualValues(t, blob.PlanCoded, results[0].Plan)
			if want == nil {
				want = file.Bytes()
			}
			assert.True(t, bytes.Equal(want, file.Bytes()), "%d bytes, %d threads", hold, threads)
		}
	}
}

func TestBuffers(t *testing.T) {
	b := buffers{budget: 10}
	assert.Empty(t, b.get())
	buf := make([]byte, 7, 9)
	b.put(buf)
	got := b.get()
	assert.Empty(t, got)
	assert.Equal(t, 9, cap(got))
	assert.True(t, b.hold(6))
	assert.False(t, b.hold(5))
	assert.True(t, b.hold(4))
	b.drop(6)
	assert.True(t, b.hold(5))
}
