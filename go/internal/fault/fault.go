// Package fault holds the one error type of the codec and its kinds.
package fault

import (
	"errors"
	"fmt"
	"syscall"
)

// Kind says what went wrong. The C ABI's result code is the negated kind.
type Kind int

// The kinds of error. FORMAT.md section 13 says which of them a reader reports.
const (
	KindArgument    Kind = 1   // the call itself is wrong
	KindCorrupt     Kind = 2   // the file breaks a MUST of the format, or a checksum does not hold
	KindTruncated   Kind = 3   // the file ends early
	KindReference   Kind = 4   // a reference is missing, or is not the one the file was made against
	KindUnsupported Kind = 5   // a version, dtype, plan or field value that the format reserves
	KindIO          Kind = 6   // reading or writing failed
	KindSpace       Kind = 7   // an output buffer is too small
	KindCancelled   Kind = 8   // the caller asked to stop
	KindLimit       Kind = 10  // a size is beyond the limits of the format or of this machine
	KindInternal    Kind = 100 // a bug in this library
)

func (k Kind) String() string {
	switch k {
	case KindArgument:
		return "invalid argument"
	case KindCorrupt:
		return "corrupt"
	case KindTruncated:
		return "truncated"
	case KindReference:
		return "wrong reference"
	case KindUnsupported:
		return "unsupported"
	case KindIO:
		return "input/output"
	case KindSpace:
		return "buffer too small"
	case KindCancelled:
		return "cancelled"
	case KindLimit:
		return "limit"
	case KindInternal:
		return "internal"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Error is the only error type that leaves the codec.
type Error struct {
	Kind   Kind
	Tensor int   // index of the tensor, -1 when it does not apply
	Offset int64 // byte offset in the file, -1 when unknown
	Errno  int   // operating system error number of KindIO, or 0
	Msg    string
}

func (e *Error) Error() string {
	s := e.Kind.String() + ": " + e.Msg
	if e.Tensor >= 0 {
		s += fmt.Sprintf(" (tensor %d)", e.Tensor)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" (file offset %d)", e.Offset)
	}
	return s
}

// New makes an error of a kind that names neither a tensor nor an offset.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Tensor: -1, Offset: -1, Msg: fmt.Sprintf(format, args...)}
}

// Argument reports a wrong call.
func Argument(format string, args ...any) *Error { return New(KindArgument, format, args...) }

// Corrupt reports a broken MUST of the format.
func Corrupt(format string, args ...any) *Error { return New(KindCorrupt, format, args...) }

// Truncated reports a file that ends early.
func Truncated(format string, args ...any) *Error { return New(KindTruncated, format, args...) }

// Reference reports a missing or wrong reference.
func Reference(format string, args ...any) *Error { return New(KindReference, format, args...) }

// Unsupported reports a value that the format reserves.
func Unsupported(format string, args ...any) *Error { return New(KindUnsupported, format, args...) }

// Limit reports a size beyond the limits of the format or of the machine.
func Limit(format string, args ...any) *Error { return New(KindLimit, format, args...) }

// Cancelled reports that the caller asked to stop.
func Cancelled() *Error { return New(KindCancelled, "stopped by the caller") }

// Internal reports a bug in this library.
func Internal(format string, args ...any) *Error { return New(KindInternal, format, args...) }

// IO wraps an error of a reader or writer. An *Error passes through unchanged.
func IO(doing string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := New(KindIO, "%s: %v", doing, err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	return e
}

// From turns any error into an *Error: the codec's own pass through, anything else is a bug.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return Internal("%v", err)
}

// At returns a copy that names a tensor and a file offset where the error does not name them yet.
func (e *Error) At(tensor int, offset int64) *Error {
	c := *e
	if c.Tensor < 0 {
		c.Tensor = tensor
	}
	if c.Offset < 0 {
		c.Offset = offset
	}
	return &c
}
