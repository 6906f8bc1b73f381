package ulpack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

// smallFiles are files that together hold every plan, token map, kind of tables and context part; the tensors of each.
func smallFiles(t testing.TB) map[string][]ulpack.Tensor {
	same := near(info(t, codeF32), "same", 50, 0.01, 1)
	same.Ref = bytes.Clone(same.Data)
	constant := of(info(t, codeF32), "constant", 9)
	constant.Data = make([]byte, 36)
	wide := near(info(t, codeBF16), "own tables", 1500, 1, 3)
	named := near(dtypes()[len(dtypes())-2], "named", 5, 0, 4) // "rgb"
	named.RefName = "another"
	return map[string][]ulpack.Tensor{
		"empty":   nil,
		"plans":   {same, constant, of(info(t, codeF32), "no element", 0), named, noise(info(t, codeBF16), "stored", 8, 2)},
		"coded":   {near(info(t, codeF32), "coded", 200, 0.001, 5), wide},
		"alone":   {without(near(info(t, codeBF16), "alone", 300, 0.01, 6)), without(near(info(t, codeI64), "ints", 100, 0, 7))},
		"bytes":   {near(info(t, codeF8), "fp8", 900, 0.05, 8)},
		"doubles": {near(info(t, codeF64), "double", 60, 1e-9, 9), near(info(t, codeC128), "complex", 20, 1e-9, 10)},
	}
}

func TestTruncation(t *testing.T) {
	for name, list := range smallFiles(t) {
		file, _ := save(t, list, ulpack.Options{Threads: 1})
		asked := items(list)
		for n := range file {
			err := load(file[:n], asked, ulpack.Options{Threads: 1})
			if kind := kindOf(t, err); kind != ulpack.KindTruncated {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, n, len(file), err)
			}
			_, err = ulpack.IndexJSON(bytes.NewReader(file[:n]), int64(n))
			require.Equal(t, ulpack.KindTruncated, kindOf(t, err))
			// The size is right, but the file is not that long.
			err = ulpack.Load(bytes.NewReader(file[:n]), int64(len(file)), asked, ulpack.Options{Threads: 1})
			require.Equal(t, ulpack.KindTruncated, kindOf(t, err))
		}
		for _, more := range []string{"\x00", "ULPEND\r\n", string(file)} {
			err := load(append(bytes.Clone(file), more...), asked, ulpack.Options{Threads: 1})
			assert.Contains(t, []ulpack.Kind{ulpack.KindTruncated, ulpack.KindCorrupt}, kindOf(t, err))
		}
	}
}

func TestEveryBitFlip(t *testing.T) {
	for name, list := range smallFiles(t) {
		file, _ := save(t, list, ulpack.Options{Threads: 1})
		asked := items(list)
		for i := range file {
			for bit := range 8 {
				file[i] ^= 1 << bit
				err := load(file, asked, ulpack.Options{Threads: 1})
				if err == nil && len(list) > 0 {
					t.Fatalf("%s: bit %d of byte %d of %d is flipped, and nothing is said", name, bit, i, len(file))
				}
				switch kind := kindOf(t, err); kind {
				case ulpack.KindCorrupt, ulpack.KindTruncated, ulpack.KindUnsupported, ulpack.KindLimit:
				default:
					t.Fatalf("%s: bit %d of byte %d of %d: %v", name, bit, i, len(file), err)
				}
				file[i] ^= 1 << bit
			}
		}
		require.NoError(t, load(file, asked, ulpack.Options{}))
	}
}

// Damage to large tensors: chunk bodies, the lengths before them, the table after them.
func TestFlipsInLargeBlobs(t *testing.T) {
	list := mixture(t)[:11]
	file, saved := save(t, list, ulpack.Options{})
	x := index(t, file)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range list {
		at := []int64{-1, 0, 1, 2, 5, 300, saved[i].NBytes - 1, saved[i].NBytes - 5, saved[i].NBytes - 20}
		for range 6 {
			at = append(at, rng.Int64N(saved[i].NBytes+1)-1)
		}
		asked := items(list)[i : i+1]
		for _, k := range at {
			if k < -1 || k >= saved[i].NBytes {
				continue
			}
			byteAt, bit := x.Tensors[i].Offset+k, byte(1)<<rng.IntN(8)
			file[byteAt] ^= bit
			err := load(file, asked, ulpack.Options{Threads: 2})
			if kind := kindOf(t, err); kind != ulpack.KindCorrupt && kind != ulpack.KindUnsupported {
				t.Fatalf("%s, byte %d: %v", list[i].Name, k, err)
			}
			file[byteAt] ^= bit
		}
	}
}

func TestSalvage(t *testing.T) {
	list := mixture(t)
	file, saved := save(t, list, ulpack.Options{})
	x := index(t, file)
	bad := map[int]bool{0: true, 3: true, 7: true, 9: true, 20: true, 60: true, 160: true}
	for i := range bad {
		require.Positive(t, saved[i].NBytes, i)
		file[x.Tensors[i].Offset+saved[i].NBytes/2] ^= 16
	}
	asked := items(list)
	require.NoError(t, load(file, asked, ulpack.Options{Salvage: true, Threads: 3}))
	for i := range list {
		if bad[i] {
			assert.Equal(t, ulpack.KindCorrupt, kindOf(t, asked[i].Err), i)
			assert.Equal(t, i, asked[i].Err.(*ulpack.Error).Tensor)
			assert.Equal(t, x.Tensors[i].Offset, asked[i].Err.(*ulpack.Error).Offset)
			continue
		}
		assert.NoError(t, asked[i].Err)
		assert.True(t, bytes.Equal(list[i].Data, asked[i].Out), list[i].Name)
	}
	err := load(file, asked, ulpack.Options{Threads: 3})
	assert.Equal(t, ulpack.KindCorrupt, kindOf(t, err))
	assert.Equal(t, 0, err.(*ulpack.Error).Tensor, "the first in the order of the file")
}

func TestRandomBytes(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{3})
	for n := range 400 {
		b := make([]byte, n)
		_, _ = rng.Read(b)
		copy(b, "\x89ULP\r\n\x1a\n\x01\x00\x00\x00")
		if n%3 == 0 && n >= 40 {
			copy(b[n-8:], "ULPEND\r\n")
		}
		_, err := ulpack.IndexJSON(bytes.NewReader(b), int64(n))
		kindOf(t, err)
	}
	for _, other := range []string{"PK\x03\x04 a zip file that is long enough", "{\"__metadata__\":", "\x89PNG\r\n\x1a\n"} {
		_, err := ulpack.IndexJSON(bytes.NewReader([]byte(other)), int64(len(other)))
		assert.Equal(t, ulpack.KindCorrupt, kindOf(t, err))
	}
}

func TestSwappedBlobs(t *testing.T) {
	a, b := near(info(t, codeF32), "a", 300, 0.01, 1), near(info(t, codeF32), "b", 300, 0.01, 2)
	b.Ref = a.Ref
	file, saved := save(t, []ulpack.Tensor{a, b}, ulpack.Options{})
	x := index(t, file)
	blob := func(i int) []byte { return file[x.Tensors[i].Offset:][:saved[i].NBytes] }
	if saved[0].NBytes != saved[1].NBytes { // make them swappable: the shorter one stands for both
		short := min(saved[0].NBytes, saved[1].NBytes)
		copy(blob(0)[:short], blob(1)[:short])
	} else {
		first := bytes.Clone(blob(0))
		copy(blob(0), blob(1))
		copy(blob(1), first)
	}
	err := load(file, items([]ulpack.Tensor{a, b}), ulpack.Options{})
	assert.Equal(t, ulpack.KindCorrupt, kindOf(t, err))
}

func TestReadErrors(t *testing.T) {
	list := mixture(t)[:12]
	file, _ := save(t, list, ulpack.Options{})
	for _, fail := range []int{0, 1, 2, 3, 4, 9} {
		r := &failingReader{Reader: bytes.NewReader(file)}
		r.left.Store(int32(fail))
		err := ulpack.Load(r, int64(len(file)), items(list), ulpack.Options{Threads: 2})
		assert.Equal(t, ulpack.KindIO, kindOf(t, err), fmt.Sprint(fail))
	}
	err := ulpack.Load(bytes.NewReader(file), -1, nil, ulpack.Options{})
	assert.Equal(t, ulpack.KindArgument, kindOf(t, err))
}

// failingReader fails after a number of reads.
type failingReader struct {
	*bytes.Reader
	left atomic.Int32
}

func (r *failingReader) ReadAt(b []byte, off int64) (int, error) {
	if r.left.Add(-1) < 0 {
		return 0, iotest.ErrTimeout
	}
	return r.Reader.ReadAt(b, off)
}
