package ulpack_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

// trajectory is a synthetic training step: weights and an update a hundredth of their scale (fp8: a tenth).
type trajectory struct {
	name    string
	tensors []ulpack.Tensor
}

func trajectories(b *testing.B) []trajectory {
	one := func(x ulpack.Tensor) []ulpack.Tensor { return []ulpack.Tensor{x} }
	small := make([]ulpack.Tensor, 2000)
	for i := range small {
		small[i] = near(info(b, codeBF16), fmt.Sprintf("layers.%d.weight", i), 1000, 0.01, uint64(i))
	}
	return []trajectory{
		{"bf16", one(near(info(b, codeBF16), "w", 8<<20, 0.01, 1))},
		{"fp16", one(near(info(b, codeF16), "w", 8<<20, 0.01, 1))},
		{"fp32", one(near(info(b, codeF32), "w", 4<<20, 0.01, 1))},
		{"fp8", one(near(info(b, codeF8), "w", 8<<20, 0.1, 1))},
		{"fp32-alone", one(without(near(info(b, codeF32), "w", 4<<20, 0.01, 1)))},
		{"bf16-2000x1000", small},
	}
}

func nbytes(list []ulpack.Tensor) (n int64) {
	for _, x := range list {
		n += int64(len(x.Data))
	}
	return n
}

func BenchmarkSave(b *testing.B) {
	for _, x := range trajectories(b) {
		b.Run(x.name, func(b *testing.B) {
			list := x.tensors
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
	for _, x := range trajectories(b) {
		b.Run(x.name, func(b *testing.B) {
			list := x.tensors
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
