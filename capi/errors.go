//go:build cgo

package main

/*
#include "ulpack.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unicode/utf8"
	"unsafe"

	"github.com/ulpack/ulpack/go/ulpack"
)

// code is the result code of a kind: ulpack.h numbers them alike, with the sign of an error.
func code(kind ulpack.Kind) C.int32_t { return -C.int32_t(kind) }

// fail makes an error that belongs to no tensor and no place in the file.
func fail(kind ulpack.Kind, format string, args ...any) *ulpack.Error {
	return &ulpack.Error{Kind: kind, Tensor: -1, Offset: -1, Msg: fmt.Sprintf(format, args...)}
}

// badArgument says what is wrong with the call itself.
func badArgument(format string, args ...any) *ulpack.Error {
	return fail(ulpack.KindArgument, format, args...)
}

// of names the tensor (or item) an argument error is about.
func of(index int, e *ulpack.Error) *ulpack.Error {
	e.Tensor = index
	return e
}

// ioError wraps a failed system call at a byte offset of the file.
func ioError(op string, offset int64, cause error) *ulpack.Error {
	e := fail(ulpack.KindIO, "%s: %v", op, cause)
	e.Offset = offset
	var errno syscall.Errno
	if errors.As(cause, &errno) {
		e.Errno = int(errno)
	}
	return e
}

// classify turns any error into one of ours.
func classify(err error) *ulpack.Error {
	var e *ulpack.Error
	if errors.As(err, &e) {
		return e
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return ioError("system call", -1, err)
	}
	return fail(ulpack.KindInternal, "%v", err)
}

// reset empties what the caller passed for the error, so that a success leaves no old message behind.
func reset(dst *C.ulp_error) {
	if dst != nil {
		*dst = C.ulp_error{tensor: -1, offset: -1}
	}
}

// report writes err to dst (which may be nil) and returns its code. A nil err is success.
func report(dst *C.ulp_error, err error) C.int32_t {
	if err == nil {
		return C.ULP_OK
	}
	e := classify(err)
	if dst == nil {
		return code(e.Kind)
	}
	reset(dst)
	dst.tensor = C.int64_t(e.Tensor)
	dst.offset = C.int64_t(e.Offset)
	dst.os_errno = C.int64_t(e.Errno)
	message := e.Msg
	if message == "" {
		message = C.GoString(C.ulp_strerror(code(e.Kind)))
	}
	writeMessage(unsafe.Slice((*byte)(unsafe.Pointer(&dst.message[0])), len(dst.message)), message)
	return code(e.Kind)
}

// writeMessage copies s and a terminating zero to dst, cut at a character border where it does not fit.
func writeMessage(dst []byte, s string) {
	if room := len(dst) - 1; len(s) > room {
		for room > 0 && !utf8.RuneStart(s[room]) {
			room--
		}
		s = s[:room]
	}
	dst[copy(dst, s)] = 0
}

// guard is deferred by every export: a panic becomes an error code, since one that reached C would end the process.
func guard(result *C.int32_t, dst *C.ulp_error) {
	if p := recover(); p != nil {
		*result = report(dst, panicError(p))
	}
}

// panicError describes a recovered panic. A fault at a mapped-looking address (see debug.SetPanicOnFault) is not a bug
// here: a buffer of the caller is gone, most often a mapped file that somebody cut short.
func panicError(p any) *ulpack.Error {
	if fault, ok := p.(interface{ Addr() uintptr }); ok {
		e := fail(ulpack.KindIO, "memory fault at %#x: a buffer is not mapped (a mapped file that was cut short?)",
			fault.Addr())
		e.Errno = int(syscall.EFAULT)
		return e
	}
	return fail(ulpack.KindInternal, "panic: %v%s", p, panicOrigin())
}

// panicOrigin is " at function:line" of the frame that panicked, for bug reports.
func panicOrigin() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs[:])])
	inPanic := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if inRuntime && strings.Contains(frame.Function, "gopanic") {
			inPanic = true
		} else if inPanic && !inRuntime {
			return fmt.Sprintf(" at %s:%d", frame.Function, frame.Line)
		}
		if !more {
			return ""
		}
	}
}
