package schedule

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// Guarded runs f and turns a panic into an error: of kind internal, or I/O for a fault on memory that is not mapped.
func Guarded(f func() error) error { return guarded(f) }

func guarded(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return f()
}

func guardedNext(next func() (Step, bool)) (step Step, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	step, ok = next()
	return step, ok, nil
}

// panicError names the panic and the function it happened in. A fault at an address that looks mapped is not a bug here: memory
// of the caller is gone, most often a mapped file that somebody cut short.
func panicError(p any) error {
	if gone, ok := p.(interface{ Addr() uintptr }); ok {
		return fault.IO(fmt.Sprintf("memory fault at %#x (a mapped file that was cut short?)", gone.Addr()), syscall.EFAULT)
	}
	return fault.Internal("panic: %v, in %s", p, origin())
}

// origin finds the function that panicked: the first frame outside the runtime and this file.
func origin() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") || !more {
			return fmt.Sprintf("%s, line %d", path.Base(frame.Function), frame.Line)
		}
	}
}
