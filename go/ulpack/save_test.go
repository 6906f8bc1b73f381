package ulpack_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

func TestBadTensors(t *testing.T) {
	good := near(info(t, codeF32), "good", 10, 0.01, 1)
	change := func(f func(*ulpack.Tensor)) []ulpack.Tensor {
		bad := good
		bad.Name = "bad"
		f(&bad)
		return []ulpack.Tensor{good, bad}
	}
	for name, c := range map[string]struct {
		tensors []ulpack.Tensor
		kind    ulpack.Kind
	}{
		"data too short":      {change(func(x *ulpack.Tensor) { x.Data = x.Data[1:] }), ulpack.KindArgument},
		"data missing":        {change(func(x *ulpack.Tensor) { x.Data = nil }), ulpack.KindArgument},
		"reference too short": {change(func(x *ulpack.Tensor) { x.Ref = x.Ref[4:] }), ulpack.KindArgument},
		"reference empty":     {change(func(x *ulpack.Tensor) { x.Ref = []byte{} }), ulpack.KindArgument},
		"name twice":          {change(func(x *ulpack.Tensor) { x.Name = "good" }), ulpack.KindArgument},
		"name not UTF-8":      {change(func(x *ulpack.Tensor) { x.Name = "\xff" }), ulpack.KindArgument},
		"ref name not UTF-8":  {change(func(x *ulpack.Tensor) { x.RefName = "\xff" }), ulpack.KindArgument},
		"dtype":               {change(func(x *ulpack.Tensor) { x.DType = 99 }), ulpack.KindArgument},
		"item size 0":         {change(func(x *ulpack.Tensor) { x.DType = 0 }), ulpack.KindArgument},
		"item size":           {change(func(x *ulpack.Tensor) { x.DType, x.ItemSize = 0, 1<<20+1 }), ulpack.KindArgument},
		"dtype name":          {change(func(x *ulpack.Tensor) { x.DType, x.ItemSize, x.DTypeName = 0, 4, strings.Repeat("x", 4097) }), ulpack.KindArgument},
		"65 dimensions":       {change(func(x *ulpack.Tensor) { x.Shape = make([]uint64, 65) }), ulpack.KindLimit},
		"too many bytes":      {change(func(x *ulpack.Tensor) { x.Shape = []uint64{1 << 30, 1 << 28} }), ulpack.KindLimit},
		"product wraps":       {change(func(x *ulpack.Tensor) { x.Shape = []uint64{1 << 62, 40} }), ulpack.KindLimit},
		"dimension":           {change(func(x *ulpack.Tensor) { x.Shape = []uint64{1 << 63, 0} }), ulpack.KindLimit},
	} {
		_, written, err := ulpack.Save(io.Discard, c.tensors, nil, nil, ulpack.Options{})
		assert.Equal(t, c.kind, kindOf(t, err), name)
		assert.Equal(t, 1, err.(*ulpack.Error).Tensor, name)
		assert.Zero(t, written)
	}
	for _, opt := range []ulpack.Options{{Effort: 4}, {Effort: -1}, {Threads: -1}, {Threads: 1 << 20}} {
		_, _, err := ulpack.Save(io.Discard, nil, nil, nil, opt)
		assert.Equal(t, ulpack.KindArgument, kindOf(t, err))
	}
	_, _, err := ulpack.Save(io.Discard, nil, nil, []byte{0xff}, ulpack.Options{})
	assert.Equal(t, ulpack.KindArgument, kindOf(t, err), "metadata that is not UTF-8")
	_, err = ulpack.Fingerprint(&ulpack.Tensor{DType: 3, Shape: []uint64{2}, Data: make([]byte, 7)})
	assert.Equal(t, ulpack.KindArgument, kindOf(t, err))
}

func TestSameReferenceNameIsOneSpelling(t *testing.T) {
	x := near(info(t, codeF32), "x", 10, 0.01, 1)
	implied, _ := save(t, []ulpack.Tensor{x}, ulpack.Options{})
	x.RefName = "x"
	spelled, _ := save(t, []ulpack.Tensor{x}, ulpack.Options{})
	assert.Equal(t, implied, spelled)
}

// fullWriter accepts n bytes and then fails.
type fullWriter struct {
	left int
	err  error
}

func (w *fullWriter) Write(b []byte) (int, error) {
	if len(b) <= w.left {
		w.left -= len(b)
		return len(b), nil
	}
	n := w.left
	w.left = 0
	return n, w.err
}

func TestWriteErrors(t *testing.T) {
	list := mixture(t)
	file, _ := save(t, list, ulpack.Options{})
	space := &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for _, n := range []int{0, 1, 100, len(file) / 2, len(file) - 1} {
		for _, threads := range []int{1, 3} {
			_, written, err := ulpack.Save(&fullWriter{n, space}, list, nil, nil, ulpack.Options{Threads: threads})
			require.Equal(t, ulpack.KindIO, kindOf(t, err))
			assert.Equal(t, int(syscall.ENOSPC), err.(*ulpack.Error).Errno)
			assert.EqualValues(t, n, written)
		}
	}
	own := &ulpack.Error{Kind: ulpack.KindSpace, Tensor: -1, Offset: -1, Msg: "full"}
	_, _, err := ulpack.Save(&fullWriter{100, own}, list, nil, nil, ulpack.Options{})
	assert.Equal(t, ulpack.KindSpace, kindOf(t, err))
	_, _, err = ulpack.Save(&fullWriter{100, nil}, list, nil, nil, ulpack.Options{})
	assert.Equal(t, ulpack.KindIO, kindOf(t, err), "a writer that accepts less and says nothing")
	_, _, err = ulpack.Save(panicWriter{}, list, nil, nil, ulpack.Options{Threads: 2})
	assert.Equal(t, ulpack.KindInternal, kindOf(t, err))
	assert.Contains(t, err.Error(), "panicWriter")
}

type panicWriter struct{}

func (panicWriter) Write([]byte) (int, error) { panic("no writing here") }

func TestCancel(t *testing.T) {
	list := mixture(t)
	file, _ := save(t, list, ulpack.Options{})
	cancel := int32(1)
	for _, threads := range []int{1, 3} {
		_, _, err := ulpack.Save(io.Discard, list, nil, nil, ulpack.Options{Threads: threads, Cancel: &cancel})
		assert.Equal(t, ulpack.KindCancelled, kindOf(t, err))
		err = load(file, items(list), ulpack.Options{Threads: threads, Cancel: &cancel})
		assert.Equal(t, ulpack.KindCancelled, kindOf(t, err))
		err = load(file, items(list), ulpack.Options{Threads: threads, Cancel: &cancel, Salvage: true})
		assert.Equal(t, ulpack.KindCancelled, kindOf(t, err))
	}
}

// cancelWriter sets the flag when the first bytes of a blob arrive.
type cancelWriter struct{ flag *int32 }

func (w cancelWriter) Write(b []byte) (int, error) {
	atomic.StoreInt32(w.flag, 1)
	return len(b), nil
}

func TestCancelMidway(t *testing.T) {
	for _, threads := range []int{1, 3} {
		var cancel int32
		var progress uint64
		list := []ulpack.Tensor{near(info(t, codeBF16), "a", 8<<18, 0.01, 1), near(info(t, codeBF16), "b", 8<<18, 0.01, 2), near(info(t, codeBF16), "c", 8<<18, 0.01, 3),
			near(info(t, codeBF16), "d", 8<<18, 0.01, 4)}
		_, written, err := ulpack.Save(cancelWriter{&cancel}, list, nil, nil, ulpack.Options{Threads: threads, Cancel: &cancel, Progress: &progress})
		assert.Equal(t, ulpack.KindCancelled, kindOf(t, err))
		assert.Positive(t, written)
		assert.Less(t, progress, uint64(16<<20))
	}
}

func TestProgress(t *testing.T) {
	list := mixture(t)
	total := uint64(0)
	for _, x := range list {
		total += uint64(len(x.Data))
	}
	for _, threads := range []int{1, 3} {
		progress := uint64(5)
		file, _ := save(t, list, ulpack.Options{Threads: threads, Progress: &progress})
		assert.Equal(t, total+5, progress)
		progress = 0
		require.NoError(t, load(file, items(list), ulpack.Options{Threads: threads, Progress: &progress}))
		assert.Equal(t, total, progress)
		progress = 0
		inPlace := items(list)
		inPlace[0].Out = bytes.Clone(list[0].Ref)
		inPlace[0].Ref = inPlace[0].Out
		require.NoError(t, load(file, inPlace, ulpack.Options{Threads: threads, Progress: &progress}))
		assert.Equal(t, total, progress)
	}
}

func TestErrorIsOneType(t *testing.T) {
	_, err := ulpack.IndexJSON(bytes.NewReader(nil), 0)
	var e *ulpack.Error
	require.True(t, errors.As(err, &e))
	assert.Equal(t, ulpack.KindTruncated, e.Kind)
	assert.Equal(t, -1, e.Tensor)
}
