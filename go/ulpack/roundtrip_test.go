package ulpack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/ulpack"
)

// Sizes around the borders of lanes, of the sample and of chunks (FORMAT.md sections 3, 21 and 23).
var sizes = []int{0, 1, 2, 3, 63, 64, 65, 255, 1023, 1024, 1025, 8192, 8193, 16383, 16384, 16385}

func TestRoundTripEveryDType(t *testing.T) {
	for _, d := range dtypes() {
		t.Run(d.Name, func(t *testing.T) {
			var list []ulpack.Tensor
			for i, n := range sizes {
				if n*d.ItemSize > 1<<20 {
					continue
				}
				seed := uint64(i)
				list = append(list,
					near(d, fmt.Sprint("near ", n), n, 0.01, seed), noise(d, fmt.Sprint("noise ", n), n, seed),
					without(near(d, fmt.Sprint("near ", n), n, 0.01, seed)), without(noise(d, fmt.Sprint("noise ", n), n, seed)))
			}
			roundTrip(t, list, ulpack.Options{Threads: 2})
		})
	}
}

func TestRoundTripChunks(t *testing.T) {
	for _, d := range dtypes() {
		t.Run(d.Name, func(t *testing.T) {
			chunk := d.ChunkElems()
			step, random := near(d, "", 5*chunk-1, 0.01, 1), noise(d, "", 2*chunk, 2)
			cut := func(x ulpack.Tensor, n int) ulpack.Tensor {
				x.Name = fmt.Sprint(n, len(x.Data))
				x.Shape = []uint64{uint64(n)}
				x.Data, x.Ref = x.Data[:n*d.ItemSize], x.Ref[:n*d.ItemSize]
				return x
			}
			list := []ulpack.Tensor{
				cut(step, chunk-1), cut(step, chunk), cut(step, chunk+1), cut(step, 4*chunk), cut(step, 5*chunk-1),
				without(cut(step, chunk+1)), without(cut(step, 4*chunk+1)), cut(random, 2*chunk-1), without(cut(random, chunk+1)),
			}
			roundTrip(t, list, ulpack.Options{Threads: 2})
		})
	}
}

func TestRoundTripAllPairsOf16Bits(t *testing.T) {
	every := make([]byte, 1<<17)
	for i := range 1 << 16 {
		testkit.PutLane(every, i, 16, uint64(i))
	}
	for _, code := range []uint8{codeBF16, codeF16} {
		d := info(t, code)
		var list []ulpack.Tensor
		for _, r := range append(testkit.Edges(16, true, d.ExpBits, d.MantBits), 0x3f80, 0x1234) {
			name := fmt.Sprintf("%04x", r)
			if len(list) > 0 && list[len(list)-1].Name == name || r%3 != 0 && r > 8 {
				continue
			}
			x := of(d, name, 1<<16)
			x.Data, x.Ref = every, bytes.Repeat([]byte{byte(r), byte(r >> 8)}, 1<<16)
			list = append(list, x)
		}
		list = unique(list)
		require.Greater(t, len(list), 20)
		roundTrip(t, list, ulpack.Options{Threads: 2})
	}
}

func unique(list []ulpack.Tensor) (kept []ulpack.Tensor) {
	seen := map[string]bool{}
	for _, x := range list {
		if !seen[x.Name] {
			seen[x.Name] = true
			kept = append(kept, x)
		}
	}
	return kept
}

func TestShapes(t *testing.T) {
	d := info(t, codeF32)
	scalar := near(d, "scalar", 1, 0.01, 1)
	scalar.Shape = nil
	matrix := near(d, "matrix", 600, 0.01, 2)
	matrix.Shape = []uint64{20, 1, 30}
	empty := of(d, "empty", 0)
	empty.Shape = []uint64{1 << 40, 0, 1 << 40}
	deep := near(d, "deep", 2, 0.01, 3)
	deep.Shape = make([]uint64, 64)
	for i := range deep.Shape {
		deep.Shape[i] = 1
	}
	deep.Shape[63] = 2
	emptyRef := of(d, "empty against empty", 0)
	emptyRef.Ref = []byte{}
	roundTrip(t, []ulpack.Tensor{scalar, matrix, empty, deep, emptyRef}, ulpack.Options{})
	roundTrip(t, nil, ulpack.Options{})
}

func TestPlans(t *testing.T) {
	d := info(t, codeF32)
	same := near(d, "same", 5000, 0.01, 1)
	same.Ref = same.Data
	constant := of(d, "constant", 1000)
	constant.Data = bytes.Repeat([]byte{1, 2, 3, 4}, 1000)
	constantSame := constant
	constantSame.Name, constantSame.Ref = "constant and same", constant.Data
	random := of(d, "random", 5000)
	random.Data = make([]byte, 20000)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(random.Data)
	unrelated := near(d, "unrelated reference", 5000, 0.01, 2)
	_, _ = src.Read(unrelated.Ref)
	list := []ulpack.Tensor{
		same, constant, constantSame, random, unrelated, near(d, "near", 5000, 0.01, 3), of(d, "empty", 0),
	}
	_, saved := roundTrip(t, list, ulpack.Options{})
	plans := map[string]uint8{}
	for i, s := range saved {
		plans[list[i].Name] = s.Plan
	}
	assert.Equal(t, map[string]uint8{
		"same": 1, "constant": 2, "constant and same": 1, "random": 0, "unrelated reference": 3, "near": 3, "empty": 0,
	}, plans)
	assert.EqualValues(t, 0, saved[0].NBytes)
	assert.EqualValues(t, 4, saved[1].NBytes)
	assert.EqualValues(t, 20000, saved[3].NBytes)
	assert.EqualValues(t, 0, saved[4].Detail&0xff, "predictor of a tensor with an unrelated reference")
	assert.EqualValues(t, 1, saved[5].Detail&0xff, "predictor of a tensor near its reference")
}

// No tensor may take more than its stored form: the bytes, and a chunk table where there are several chunks.
func TestNeverLargerThanStored(t *testing.T) {
	var list []ulpack.Tensor
	for _, d := range dtypes() {
		for _, n := range []int{1, 2, 5, 17, 100} {
			list = append(list, noise(d, fmt.Sprint(d.Name, n, " noise"), n, uint64(n)), near(d, fmt.Sprint(d.Name, n), n, 0.5, uint64(n)))
		}
	}
	list = append(list, noise(info(t, codeF16), "large", 5<<18, 1))
	_, saved := roundTrip(t, list, ulpack.Options{})
	for i, s := range saved {
		limit := int64(len(list[i].Data))
		if list[i].Name == "large" {
			limit += 5*8 + 4
		}
		assert.LessOrEqual(t, s.NBytes, limit, list[i].Name)
	}
}

func TestInputsAreNotWritten(t *testing.T) {
	list := mixture(t)
	type sum struct{ data, ref uint64 }
	sums := func() (all []sum) {
		for _, x := range list {
			raw := ulpack.Tensor{DType: 16, Shape: []uint64{uint64(len(x.Data))}, Data: x.Data}
			a, err := ulpack.Fingerprint(&raw)
			require.NoError(t, err)
			raw.Data = x.Ref
			raw.Shape = []uint64{uint64(len(x.Ref))}
			b, err := ulpack.Fingerprint(&raw)
			require.NoError(t, err)
			all = append(all, sum{a, b})
		}
		return all
	}
	before := sums()
	roundTrip(t, list, ulpack.Options{Threads: 3})
	assert.Equal(t, before, sums())
}

func TestThreadsDoNotChangeBytes(t *testing.T) {
	list := mixture(t)
	one, _ := roundTrip(t, list, ulpack.Options{Threads: 1})
	for _, threads := range []int{2, 3, 8} {
		file, _ := roundTrip(t, list, ulpack.Options{Threads: threads})
		assert.True(t, bytes.Equal(one, file), "%d threads", threads)
	}
	again, _ := save(t, list, ulpack.Options{Threads: 8})
	assert.True(t, bytes.Equal(one, again))
}

// A tensor's blob does not depend on its neighbours.
func TestBlobsAreIndependent(t *testing.T) {
	list := mixture(t)
	_, saved := save(t, list, ulpack.Options{Threads: 2})
	for i := range list {
		if i%5 != 0 && len(list[i].Data) < 1<<20 {
			continue
		}
		_, alone := save(t, list[i:i+1], ulpack.Options{Threads: 1})
		assert.Equal(t, saved[i], alone[0], list[i].Name)
	}
}

func TestEffortIsRecordedOnly(t *testing.T) {
	list := mixture(t)[6:30]
	_, two := save(t, list, ulpack.Options{})
	for effort := 1; effort <= 3; effort++ {
		_, saved := roundTrip(t, list, ulpack.Options{Effort: effort})
		assert.Equal(t, two, saved)
	}
}
