//go:build cgo && windows

package main

import (
	"syscall"

	"github.com/ulpack/ulpack/go/ulpack"
)

// descriptor is an open file of the caller. On Windows ulp_stream.fd holds the operating system's handle
// (msvcrt.get_osfhandle in Python), since a C runtime's descriptors mean nothing to another C runtime.
type descriptor = syscall.Handle

func writeDescriptor(fd descriptor, p []byte) (int, error) {
	var n uint32
	err := syscall.WriteFile(fd, p, &n, nil)
	return int(n), err
}

func readDescriptor(fd descriptor, p []byte, offset int64) (int, error) {
	var n uint32
	at := syscall.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32)}
	err := syscall.ReadFile(fd, p, &n, &at)
	if err == syscall.ERROR_HANDLE_EOF {
		err = nil
	}
	return int(n), err
}

func interrupted(error) bool { return false }

func notReady(error) bool { return false }

// sizeOf asks the file system. Only a file on a disk can be read at any offset and knows its size.
func sizeOf(fd descriptor) (int64, *ulpack.Error) {
	kind, err := syscall.GetFileType(fd)
	if err == nil && kind != syscall.FILE_TYPE_DISK {
		err = syscall.ESPIPE
	}
	if err != nil {
		return 0, ioError("not a file on a disk, read it into memory first", -1, err)
	}
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(fd, &info); err != nil {
		return 0, ioError("file size", -1, err)
	}
	return int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow), nil
}
