//go:build cgo && unix

package main

import (
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

func header(t *testing.T) string {
	text, err := os.ReadFile("ulpack.h")
	require.NoError(t, err)
	return string(text)
}

func text(e *cError) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&e.message[0])), len(e.message))
	s, _, terminated := strings.Cut(string(b), "\x00")
	if !terminated {
		return "not terminated"
	}
	return s
}

func TestCodesAreThoseOfTheHeader(t *testing.T) {
	kinds := map[string]ulpack.Kind{
		"ARGUMENT": ulpack.KindArgument, "CORRUPT": ulpack.KindCorrupt, "TRUNCATED": ulpack.KindTruncated,
		"REFERENCE": ulpack.KindReference, "UNSUPPORTED": ulpack.KindUnsupported, "IO": ulpack.KindIO,
		"SPACE": ulpack.KindSpace, "CANCELLED": ulpack.KindCancelled, "LIMIT": ulpack.KindLimit,
		"INTERNAL": ulpack.KindInternal,
	}
	lines := regexp.MustCompile(`ULP_E_(\w+) = (-\d+)`).FindAllStringSubmatch(header(t), -1)
	require.Len(t, lines, len(kinds)+1)
	for _, line := range lines {
		want, err := strconv.Atoi(line[2])
		require.NoError(t, err)
		if line[1] == "FORKED" { // told by shim.c, before any Go code
			continue
		}
		require.Contains(t, kinds, line[1])
		assert.EqualValues(t, want, code(kinds[line[1]]), line[1])
	}
}

// Every field of a record is 8 bytes, so that NumPy can fill the records column by column.
func TestRecordsHaveTheSizesOfTheHeader(t *testing.T) {
	sizes := map[string]uintptr{
		"error": unsafe.Sizeof(cError{}), "bytes": unsafe.Sizeof(cBytes{}), "tensor": unsafe.Sizeof(cTensor{}),
		"options": unsafe.Sizeof(cOptions{}), "stream": unsafe.Sizeof(cStream{}), "saved": unsafe.Sizeof(cSaved{}),
		"item": unsafe.Sizeof(cItem{}),
	}
	records := regexp.MustCompile(`(?s)typedef struct ulp_(\w+) \{(.*?)\n\} ulp_`).FindAllStringSubmatch(header(t), -1)
	require.Len(t, records, len(sizes))
	field := regexp.MustCompile(`(?m)^ +(uint64_t|int64_t|char) \w+(?:\[(\d+)\])?;`)
	for _, record := range records {
		total := 0
		for _, f := range field.FindAllStringSubmatch(record[2], -1) {
			size := 8
			if f[1] == "char" {
				size = 1
			}
			if f[2] != "" {
				n, err := strconv.Atoi(f[2])
				require.NoError(t, err)
				size *= n
			}
			total += size
		}
		assert.EqualValues(t, total, sizes[record[1]], record[1])
	}
	assert.EqualValues(t, 16*8, sizes["tensor"])
	assert.EqualValues(t, 12*8, sizes["item"])
	assert.EqualValues(t, 512, sizes["error"])
}

func TestPanicsBecomeErrors(t *testing.T) {
	var e cError
	none := []int{}
	result := call(&e, func() error { return errors.New(strconv.Itoa(none[len(none)])) })
	assert.EqualValues(t, code(ulpack.KindInternal), result)
	assert.Contains(t, text(&e), "index out of range [0] with length 0 at ")
	assert.Contains(t, text(&e), "TestPanicsBecomeErrors")

	result = call(nil, func() error { panic("no place to say why") })
	assert.EqualValues(t, code(ulpack.KindInternal), result)

	// Memory that the process may not read: a mapping is the simplest to get.
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(page)) }()
	result = call(&e, func() error { return errors.New(string(page[:1])) })
	assert.EqualValues(t, code(ulpack.KindIO), result)
	assert.EqualValues(t, syscall.EFAULT, e.os_errno)
	assert.Contains(t, text(&e), "memory fault")
}

func TestErrorsAreReported(t *testing.T) {
	e := cError{tensor: 3, os_errno: 4}
	assert.Zero(t, call(&e, func() error { return nil }))
	assert.Equal(t, cError{tensor: -1, offset: -1}, e)

	failure := &ulpack.Error{Kind: ulpack.KindCorrupt, Tensor: 7, Offset: 99, Msg: "bad"}
	assert.EqualValues(t, code(ulpack.KindCorrupt), call(&e, func() error { return failure }))
	assert.EqualValues(t, 7, e.tensor)
	assert.EqualValues(t, 99, e.offset)
	assert.Equal(t, "bad", text(&e))

	assert.EqualValues(t, code(ulpack.KindIO), call(&e, func() error { return syscall.ENOSPC }))
	assert.EqualValues(t, syscall.ENOSPC, e.os_errno)
	assert.EqualValues(t, code(ulpack.KindInternal), call(&e, func() error { return errors.New("stray") }))
	assert.Equal(t, "stray", text(&e))
	failure.Msg = ""
	call(&e, func() error { return failure })
	assert.Equal(t, "the file is corrupt", text(&e))
}

func TestMessagesAreCutAtCharacters(t *testing.T) {
	for n := 480; n < 490; n++ {
		e := cError{}
		message := strings.Repeat("a", n) + "π"
		report(&e, badArgument("%s", message))
		if n+2 < len(e.message) {
			assert.Equal(t, message, text(&e))
		} else {
			assert.Equal(t, message[:min(n, len(e.message)-1)], text(&e))
		}
	}
}

func TestBlocks(t *testing.T) {
	b := []byte("abc")
	s := cBytes{}
	at := uintptr(unsafe.Pointer(&b[0]))
	for _, c := range []struct {
		addr uintptr
		n    uint64
		want string
		ok   bool
	}{
		{at, 3, "abc", true},
		{at, 0, "", true},
		{0, 0, "", true},
		{0, 1, "", false},
		{at, math.MaxUint64, "", false},
		{math.MaxUint64, 2, "", false},
		{at, 1 << 63, "", false},
	} {
		s.data, s.nbytes = 0, 0
		*(*uintptr)(unsafe.Pointer(&s.data)) = c.addr
		*(*uint64)(unsafe.Pointer(&s.nbytes)) = c.n
		got, e := block("test", s.data, s.nbytes)
		if !c.ok {
			assert.NotNil(t, e)
			continue
		}
		require.Nil(t, e)
		require.NotNil(t, got)
		assert.Equal(t, c.want, string(got))
	}
	runtime.KeepAlive(b)
}

func TestShapeBytes(t *testing.T) {
	for _, c := range []struct {
		shape    []uint64
		itemsize uint64
		want     uint64
		ok       bool
	}{
		{nil, 4, 4, true},
		{[]uint64{3, 5}, 2, 30, true},
		{[]uint64{1 << 62, 1 << 62, 0}, 8, 0, true},
		{[]uint64{1 << 62}, 2, 0, false},
		{[]uint64{1 << 32, 1 << 32}, 1, 0, false},
		{[]uint64{math.MaxInt64}, 1, math.MaxInt64, true},
	} {
		got, ok := shapeBytes(c.shape, c.itemsize)
		assert.Equal(t, c.ok, ok, c.shape)
		assert.Equal(t, c.want, got, c.shape)
	}
}

func TestMemoryWriterCountsOn(t *testing.T) {
	w := &memoryWriter{dst: make([]byte, 5)}
	for range 3 {
		n, err := io.WriteString(w, "abc")
		assert.NoError(t, err)
		assert.Equal(t, 3, n)
	}
	assert.Equal(t, "abcab", string(w.dst))
	assert.EqualValues(t, 9, w.total)
}

func TestFiles(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer f.Close()
	w := &fileWriter{fd: descriptor(f.Fd()), opt: &ulpack.Options{}}
	_, err = io.WriteString(w, "hello")
	require.NoError(t, err)
	size, e := sizeOf(w.fd)
	require.Nil(t, e)
	assert.EqualValues(t, 5, size)

	r := fileReader{w.fd}
	b := make([]byte, 4)
	n, err := r.ReadAt(b, 1)
	assert.NoError(t, err)
	assert.Equal(t, "ello", string(b[:n]))
	n, err = r.ReadAt(b, 3)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "lo", string(b[:n]))
	_, err = r.ReadAt(b, -1)
	assert.Error(t, err)
}
