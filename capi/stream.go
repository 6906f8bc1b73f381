//go:build cgo

package main

/*
#include "ulpack.h"
*/
import "C"

import (
	"bytes"
	"io"
	"math"
	"time"

	"github.com/ulpack/ulpack/go/ulpack"
)

// maxTransfer bounds one system call: some systems refuse or cut short what is over 2 GiB.
const maxTransfer = 1 << 30

// retryDelay is how long to wait for a descriptor in non-blocking mode that is not ready.
const retryDelay = time.Millisecond

// memoryWriter fills the caller's buffer and goes on counting when it is full, so that the caller can be told the size
// it takes.
type memoryWriter struct {
	dst   []byte
	total uint64
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	if w.total < uint64(len(w.dst)) {
		copy(w.dst[w.total:], p)
	}
	w.total += uint64(len(p))
	return len(p), nil
}

// fileWriter writes to a descriptor of the caller from its current position, and never closes it.
type fileWriter struct {
	fd    descriptor
	opt   *ulpack.Options
	total int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := writeDescriptor(w.fd, p[done:min(len(p), done+maxTransfer)])
		switch {
		case n > 0:
			done += n
			w.total += int64(n)
		case interrupted(err):
		case notReady(err):
			if cancelled(w.opt) {
				return done, fail(ulpack.KindCancelled, "cancelled while waiting to write")
			}
			time.Sleep(retryDelay)
		case err != nil:
			return done, ioError("write", w.total, err)
		default:
			return done, ioError("write", w.total, io.ErrShortWrite)
		}
	}
	return done, nil
}

// fileReader reads a descriptor of the caller at any offset, and leaves its position alone.
type fileReader struct{ fd descriptor }

func (r fileReader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, badArgument("negative offset %d", offset)
	}
	done := 0
	for done < len(p) {
		n, err := readDescriptor(r.fd, p[done:min(len(p), done+maxTransfer)], offset+int64(done))
		switch {
		case n > 0:
			done += n
		case err == nil:
			return done, io.EOF
		case !interrupted(err):
			return done, ioError("read", offset+int64(done), err)
		}
	}
	return done, nil
}

// destination is where a save goes: memory is nil for a descriptor.
type destination struct {
	io.Writer
	memory *memoryWriter
}

func openWriter(s *cStream, opt *ulpack.Options) (destination, *ulpack.Error) {
	fd, e := checkStream(s)
	if e != nil {
		return destination{}, e
	}
	if s.fd >= 0 {
		return destination{Writer: &fileWriter{fd: fd, opt: opt}}, nil
	}
	dst, e := block("stream", s.data, s.nbytes)
	if e != nil {
		return destination{}, e
	}
	memory := &memoryWriter{dst: dst}
	return destination{memory, memory}, nil
}

func openReader(s *cStream) (io.ReaderAt, int64, *ulpack.Error) {
	fd, e := checkStream(s)
	if e != nil {
		return nil, 0, e
	}
	if s.fd < 0 {
		src, e := block("stream", s.data, s.nbytes)
		return bytes.NewReader(src), int64(len(src)), e
	}
	if s.nbytes > math.MaxInt64 {
		return nil, 0, badArgument("stream: length %d", uint64(s.nbytes))
	}
	size := int64(s.nbytes)
	if size == 0 {
		if size, e = sizeOf(fd); e != nil {
			return nil, 0, e
		}
	}
	return fileReader{fd}, size, nil
}

func checkStream(s *cStream) (descriptor, *ulpack.Error) {
	if s == nil {
		return 0, badArgument("stream: null pointer")
	}
	if s.reserved != 0 {
		return 0, badArgument("stream: the reserved field must be 0")
	}
	if s.fd < -1 || s.fd > math.MaxInt32 {
		return 0, badArgument("stream: descriptor %d", int64(s.fd))
	}
	return descriptor(s.fd), nil
}
