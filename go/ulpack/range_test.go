package ulpack_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/ulpack"
)

func TestRanges(t *testing.T) {
	list := mixture(t)
	file, _ := save(t, list, ulpack.Options{})
	rng := testkit.Rand(1)
	var asked []ulpack.Item
	for i := range list {
		n := list[i].Shape[0]
		size := uint64(0)
		if n > 0 {
			size = uint64(len(list[i].Data)) / n
		}
		for _, r := range [][2]uint64{{0, 0}, {0, n}, {n, 0}, {n, ulpack.All}, {n / 2, ulpack.All}, {rng.Uint64N(n + 1), 0}, {1 << 18, 1}, {1<<18 - 1, 2}, {1<<18 + 5, 3 << 18}} {
			first, count := r[0], r[1]
			if count == ulpack.All {
				asked = append(asked, ulpack.Item{Tensor: i, Ref: list[i].Ref, Out: make([]byte, (n-min(first, n))*size), First: first, Count: count})
				continue
			}
			if first+count > n {
				continue
			}
			asked = append(asked, ulpack.Item{Tensor: i, Ref: list[i].Ref, Out: make([]byte, count*size), First: first, Count: count})
		}
	}
	require.Greater(t, len(asked), 500)
	rng.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	for _, threads := range []int{1, 3} {
		require.NoError(t, load(file, asked, ulpack.Options{Threads: threads}))
		for _, it := range asked {
			x := &list[it.Tensor]
			size := uint64(0)
			if x.Shape[0] > 0 {
				size = uint64(len(x.Data)) / x.Shape[0]
			}
			if !bytes.Equal(x.Data[it.First*size:][:len(it.Out)], it.Out) {
				t.Fatalf("%s: elements from %d on, %d bytes", x.Name, it.First, len(it.Out))
			}
		}
	}
}

// reads notes which bytes are read.
type reads struct {
	*bytes.Reader
	touched []bool
}

func (r *reads) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.Reader.ReadAt(b, off)
	for i := range n {
		r.touched[off+int64(i)] = true
	}
	return n, err
}

func TestRangeReadsOnlyItsChunks(t *testing.T) {
	x := near(info(t, codeBF16), "x", 16<<18, 0.01, 1)
	file, _ := save(t, []ulpack.Tensor{x}, ulpack.Options{})
	r := &reads{bytes.NewReader(file), make([]bool, len(file))}
	out := make([]byte, 200)
	item := ulpack.Item{Ref: x.Ref, Out: out, First: 7<<18 - 50, Count: 100} // two chunks of sixteen
	require.NoError(t, ulpack.Load(r, int64(len(file)), []ulpack.Item{item}, ulpack.Options{Threads: 1}))
	assert.Equal(t, x.Data[2*item.First:][:200], out)
	n := 0
	for _, touched := range r.touched {
		if touched {
			n++
		}
	}
	assert.Less(t, n, len(file)*3/16)
	assert.Greater(t, n, len(file)*2/16)
}

func TestBadRanges(t *testing.T) {
	x := near(info(t, codeBF16), "x", 100, 0.01, 1)
	file, _ := save(t, []ulpack.Tensor{x}, ulpack.Options{})
	for name, it := range map[string]ulpack.Item{
		"first beyond the end":   {First: 101, Count: 0},
		"count beyond the end":   {First: 50, Count: 51, Out: make([]byte, 102)},
		"count that wraps":       {First: 50, Count: ulpack.All - 1, Out: make([]byte, 100)},
		"output too small":       {Count: 100, Out: make([]byte, 199)},
		"output too large":       {Count: 100, Out: make([]byte, 201)},
		"no output":              {Count: 100},
		"no such tensor":         {Tensor: 1, Count: 0},
		"negative tensor number": {Tensor: -1, Count: 0},
	} {
		it.Ref = x.Ref
		err := load(file, []ulpack.Item{it}, ulpack.Options{})
		assert.Equal(t, ulpack.KindArgument, kindOf(t, err), name)
	}
}
