//go:build cgo && unix

package main

import (
	"syscall"

	"github.com/ulpack/ulpack/go/ulpack"
)

// descriptor is an open file of the caller.
type descriptor int

func writeDescriptor(fd descriptor, p []byte) (int, error) { return syscall.Write(int(fd), p) }

func readDescriptor(fd descriptor, p []byte, offset int64) (int, error) {
	return syscall.Pread(int(fd), p, offset)
}

func interrupted(err error) bool { return err == syscall.EINTR }

func notReady(err error) bool { return err == syscall.EAGAIN }

// sizeOf asks the file system. Only a regular file can be read at any offset and knows its size.
func sizeOf(fd descriptor) (int64, *ulpack.Error) {
	var stat syscall.Stat_t
	for {
		err := syscall.Fstat(int(fd), &stat)
		if err == nil {
			break
		}
		if !interrupted(err) {
			return 0, ioError("fstat", -1, err)
		}
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return 0, ioError("not a regular file, read it into memory first", -1, syscall.ESPIPE)
	}
	return stat.Size, nil
}
