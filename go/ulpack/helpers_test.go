package ulpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/ulpack"
)

// save returns the file of the tensors and what became of them.
func save(t testing.TB, tensors []ulpack.Tensor, opt ulpack.Options) ([]byte, []ulpack.Saved) {
	t.Helper()
	var b bytes.Buffer
	saved, written, err := ulpack.Save(&b, tensors, nil, nil, opt)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), written)
	require.Len(t, saved, len(tensors))
	return b.Bytes(), saved
}

// items asks for all tensors, with their references and new outputs that are filled with garbage.
func items(tensors []ulpack.Tensor) []ulpack.Item {
	list := make([]ulpack.Item, len(tensors))
	for i := range tensors {
		out := bytes.Repeat([]byte{0xa5}, len(tensors[i].Data))
		list[i] = ulpack.Item{Tensor: i, Ref: tensors[i].Ref, Out: out, Count: ulpack.All}
	}
	return list
}

func load(file []byte, list []ulpack.Item, opt ulpack.Options) error {
	return ulpack.Load(bytes.NewReader(file), int64(len(file)), list, opt)
}

// roundTrip saves and loads the tensors and requires the same bits.
func roundTrip(t testing.TB, tensors []ulpack.Tensor, opt ulpack.Options) ([]byte, []ulpack.Saved) {
	t.Helper()
	file, saved := save(t, tensors, opt)
	list := items(tensors)
	require.NoError(t, load(file, list, opt))
	for i := range tensors {
		if !bytes.Equal(tensors[i].Data, list[i].Out) {
			t.Fatalf("%s came back different", tensors[i].Name)
		}
		fingerprint, err := ulpack.Fingerprint(&tensors[i])
		require.NoError(t, err)
		require.Equal(t, fingerprint, list[i].Fingerprint)
		require.Equal(t, fingerprint, saved[i].Fingerprint)
	}
	bound, err := ulpack.SaveBound(tensors, nil, nil)
	require.NoError(t, err)
	require.LessOrEqual(t, int64(len(file)), bound)
	return file, saved
}

// kindOf returns the kind of an error, which must be an *Error.
func kindOf(t testing.TB, err error) ulpack.Kind {
	t.Helper()
	require.Error(t, err)
	var e *ulpack.Error
	require.True(t, errors.As(err, &e), "%T: %v", err, err)
	require.IsType(t, e, err)
	return e.Kind
}

// dtypes are all dtypes with a code, and two without.
func dtypes() []dtype.Info {
	return append(dtype.All(), dtype.Named("quint4x2", 1), dtype.Named("rgb", 3), dtype.Named("", 70000))
}

// of returns a tensor of n elements in one dimension.
func of(d dtype.Info, name string, n int) ulpack.Tensor {
	t := ulpack.Tensor{Name: name, DType: ulpack.DType(d.Code), Shape: []uint64{uint64(n)}}
	if d.Code == dtype.CodeNamed {
		t.DTypeName, t.ItemSize = d.Name, d.ItemSize
	}
	return t
}

// near returns a tensor and a reference a training step away (integers: a small random walk away).
func near(d dtype.Info, name string, n int, step float64, seed uint64) ulpack.Tensor {
	t := of(d, name, n)
	lanes := n * d.Components
	if d.Float {
		t.Data, t.Ref = testkit.Float(lanes, d.Width, d.ExpBits, d.MantBits, step, seed)
		return t
	}
	rng := testkit.Rand(seed)
	t.Data, t.Ref = make([]byte, n*d.ItemSize), make([]byte, n*d.ItemSize)
	for i := range lanes {
		v := uint64(rng.NormFloat64() * 50)
		testkit.PutLane(t.Ref, i, d.Width, v)
		testkit.PutLane(t.Data, i, d.Width, v+uint64(rng.NormFloat64()*2))
	}
	return t
}

// noise returns a tensor of random bits, edge patterns among them, and a reference of the same kind.
func noise(d dtype.Info, name string, n int, seed uint64) ulpack.Tensor {
	t := of(d, name, n)
	rng := testkit.Rand(seed)
	edges := testkit.Edges(d.Width, d.Float, d.ExpBits, d.MantBits)
	fill := func() []byte {
		b := make([]byte, n*d.ItemSize)
		for i := range n * d.Components {
			v := rng.Uint64()
			if rng.IntN(2) == 0 {
				v = edges[rng.IntN(len(edges))]
			}
			testkit.PutLane(b, i, d.Width, v)
		}
		return b
	}
	t.Data, t.Ref = fill(), fill()
	return t
}

// without drops the reference.
func without(t ulpack.Tensor) ulpack.Tensor {
	t.Name += " alone"
	t.Ref = nil
	return t
}

func info(t testing.TB, code uint8) dtype.Info {
	d, ok := dtype.Lookup(code)
	require.True(t, ok)
	return d
}

// Codes of dtypes.
const (
	codeBF16 = 1
	codeF16  = 2
	codeF32  = 3
	codeF64  = 4
	codeF8   = 5
	codeI64  = 23
	codeC128 = 27
)

// mixture is a small state dict with every plan, several dtypes, and tensors on both sides of the borders of lanes and
// chunks.
func mixture(t testing.TB) []ulpack.Tensor {
	list := []ulpack.Tensor{
		near(info(t, codeBF16), "embed", 5<<18+77, 0.01, 1),
		near(info(t, codeBF16), "norm", 256, 0.01, 2),
		near(info(t, codeF32), "head", 300001, 0.001, 3),
		noise(info(t, codeBF16), "noise", 5<<18+1, 4),
		near(info(t, codeF8), "fp8", 20000, 0.1, 5),
		without(near(info(t, codeBF16), "moment", 5<<18+3, 0.01, 6)),
		near(info(t, codeI64), "counter", 1, 0, 7),
		near(info(t, codeC128), "complex", 70000, 0.01, 8),
	}
	same := near(info(t, codeF16), "same", 6<<18, 0.01, 9)
	same.Ref = bytes.Clone(same.Data)
	zeros := of(info(t, codeF32), "zeros", 5<<18)
	zeros.Data = make([]byte, 5<<20)
	half := near(info(t, codeBF16), "half", 6<<18, 0.01, 10) // some chunks unchanged
	copy(half.Data[1<<20:], half.Ref[1<<20:])
	list = append(list, same, zeros, half)
	for i := range 150 {
		list = append(list, near(info(t, codeF32), fmt.Sprintf("layers.%d.bias", i), 20*i, 0.01, uint64(100+i)))
	}
	return list
}
