package ulpack_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

// trajectories are synthetic training steps: weights and an update a hundredth of their scale, 16 MiB each.
func trajectories(b *testing.B) map[string][]ulpack.Tensor {
	small := make([]ulpack.Tensor, 2000)
	for i := range small {
		small[i] = near(info(b, codeBF16), fmt.Sprintf("layers.%d.weight", i), 1000, 0.01, uint64(i))
	}
	return map[string][]ulpack.Tensor{
		"bf16":             {near(info(b, codeBF16), "w", 8<<20, 0.01, 1)},
		"fp16":             {near(info(b, codeF16), "w", 8<<20, 0.01, 1)},
		"fp32":             {near(info(b, codeF32), "w", 4<<20, 0.01, 1)},
		"fp8":              {near(info(b, codeF8), "w", 8<<20, 0.1, 1)},
		"fp32 alone":       {without(near(info(b, codeF32), "w", 4<<20, 0.01, 1))},
		"2000 x 1000 bf16": small,
	}
}

func nbytes(list []ulpack.Tensor) (n int64) {
	for _, x := range list {
		n += int64(len(x.Data))
	}
	return n
}

func BenchmarkSave(b *testing.B) {
	for name, list := range trajectories(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(nbytes(list))
			b.ReportAllocs()
			var written int64
			for b.Loop() {
				var err error
				_, written, err = ulpack.Save(io.Discard, list, nil, nil, ulpack.Options{Threads: 1})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(written)/float64(nbytes(list)), "ratio")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for name, list := range trajectories(b) {
		b.Run(name, func(b *testing.B) {
			file, _ := save(b, list, ulpack.Options{})
			asked := items(list)
			b.SetBytes(nbytes(list))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, load(file, asked, ulpack.Options{Threads: 1}))
			}
			require.True(b, bytes.Equal(list[0].Data, asked[0].Out))
		})
	}
}
