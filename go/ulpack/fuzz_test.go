package ulpack_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

// FuzzLoad reads any bytes as a file: one error, or the tensors that the file was made from.
func FuzzLoad(f *testing.F) {
	list := smallFiles(f)["plans"]
	f.Add([]byte("\x89ULP\r\n\x1a\n\x01\x00\x00\x00"))
	for _, some := range smallFiles(f) {
		file, _ := save(f, some, ulpack.Options{})
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		index, err := ulpack.IndexJSON(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			var e *ulpack.Error
			require.True(t, errors.As(err, &e))
			require.NotEqual(t, ulpack.KindInternal, e.Kind)
			return
		}
		require.NotEmpty(t, index)
		asked := items(list)
		if err := load(file, asked, ulpack.Options{Salvage: true, Threads: 2}); err != nil {
			require.NotEqual(t, ulpack.KindInternal, kindOf(t, err))
		}
	})
}

// FuzzRoundTrip saves and loads a tensor of any bytes.
func FuzzRoundTrip(f *testing.F) {
	all := dtypes()
	f.Add(uint8(0), []byte{}, []byte{}, true)
	for i, d := range all {
		x := near(d, "x", 20, 0.01, uint64(i))
		f.Add(uint8(i), x.Data, x.Ref, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, which uint8, data, ref []byte, withRef bool) {
		d := all[int(which)%len(all)]
		n := len(data) / d.ItemSize
		x := of(d, "x", n)
		x.Data = data[:n*d.ItemSize]
		if withRef {
			x.Ref = make([]byte, len(x.Data))
			copy(x.Ref, ref)
		}
		file, saved := roundTrip(t, []ulpack.Tensor{x}, ulpack.Options{})
		require.LessOrEqual(t, saved[0].NBytes, int64(len(x.Data)))
		require.LessOrEqual(t, len(file), len(x.Data)+300)
	})
}
