package container

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/sidecoder"
)

// Index is everything that a file says outside of the blobs.
type Index struct {
	Directory
	Size uint64 // of the file
}

// ReadIndex reads the index of a file of size bytes and checks it: limits, checksums, no holes between blobs. Nothing is
// allocated on the word of the file alone.
func ReadIndex(r io.ReaderAt, size int64) (*Index, error) {
	if size < 0 {
		return nil, fault.Argument("a file of %d bytes", size)
	}
	x := &Index{Size: uint64(size)}
	f, err := readFront(r, x.Size)
	if err != nil {
		return nil, err
	}
	tail, tailAt, err := readTail(r, x.Size, f.end)
	if err != nil {
		return nil, err
	}
	plain, err := sidecoder.DecodeText(f.coded, int(f.plain))
	if err != nil {
		return nil, fault.Corrupt("directory: %v", err)
	}
	x.Minor = f.minor
	if err := x.unmarshal(plain, uint64(len(tail)/minTailEntry)); err != nil {
		return nil, err
	}
	if err := x.unmarshalTail(tail, f.end, tailAt); err != nil {
		return nil, err
	}
	return x, nil
}

// front is the start of a file.
type front struct {
	coded []byte // the coded directory
	minor uint8
	plain uint32 // length of the directory
	end   uint64 // where the blobs start
}

func readFront(r io.ReaderAt, size uint64) (f front, err error) {
	var memory [prefixLen]byte
	b := memory[:min(size, prefixLen)]
	if err := readAt(r, b, 0); err != nil {
		return f, err
	}
	if got := string(b[:min(len(b), len(magic))]); !strings.HasPrefix(magic, got) {
		return f, fault.Corrupt("not an ulpack file")
	}
	if len(b) < prefixLen {
		return f, fault.Truncated("the file has %d bytes", size)
	}
	major, minor, zero := b[8], b[9], binary.LittleEndian.Uint16(b[10:])
	f.minor = minor
	coded := binary.LittleEndian.Uint32(b[12:])
	f.plain = binary.LittleEndian.Uint32(b[16:])
	f.end = prefixLen + uint64(coded)
	switch {
	case major != MajorFormat || minor > MinorFormat:
		return f, fault.Unsupported("format version %d.%d; this library reads up to %d.%d", major, minor, MajorFormat, MinorFormat)
	case zero != 0:
		return f, fault.Corrupt("the reserved field at the front is not 0")
	case f.plain > maxDirectory || uint64(f.plain) > ratioBase+ratioFactor*uint64(coded):
		return f, fault.Limit("a directory of %d bytes, coded in %d", f.plain, coded)
	case f.end > size:
		return f, fault.Truncated("the file has %d bytes, its directory alone %d", size, coded)
	}
	f.coded = make([]byte, coded)
	if err := readAt(r, f.coded, prefixLen); err != nil {
		return f, err
	}
	if frontChecksum(b[8:20], f.coded) != binary.LittleEndian.Uint32(b[20:]) {
		return f, fault.Corrupt("the directory does not have its checksum").At(-1, prefixLen)
	}
	return f, nil
}

// frontChecksum is the checksum of the fixed fields and the coded directory.
func frontChecksum(fields, coded []byte) uint32 {
	h := blob.NewHasher()
	defer h.Release()
	h.Write(fields)
	h.Write(coded)
	return uint32(h.Sum64())
}

// readTail reads and checks the footer and the tail of a file whose blobs start at first.
func readTail(r io.ReaderAt, size, first uint64) (tail []byte, at uint64, err error) {
	if size < first+footerLen {
		return nil, 0, fault.Truncated("the file has %d bytes, too few for its footer", size)
	}
	var footer [footerLen]byte
	if err := readAt(r, footer[:], size-footerLen); err != nil {
		return nil, 0, err
	}
	if string(footer[24:]) != endMagic {
		return nil, 0, fault.Truncated("the file does not end with an end mark: it was cut off, or bytes follow its end")
	}
	at = binary.LittleEndian.Uint64(footer[:])
	length := uint64(binary.LittleEndian.Uint32(footer[8:]))
	if at < first || at > size-footerLen || length != size-footerLen-at {
		return nil, 0, fault.Corrupt("footer: the tail of %d bytes at %d does not lie between the blobs and the footer", length, at)
	}
	// The hash covers the tail and the footer's fields before it; they lie in a row.
	b := make([]byte, length+16)
	if err := readAt(r, b, at); err != nil {
		return nil, 0, err
	}
	if blob.Hash(b) != binary.LittleEndian.Uint64(footer[16:]) {
		return nil, 0, fault.Corrupt("the tail does not have its checksum").At(-1, int64(at))
	}
	if binary.LittleEndian.Uint32(footer[12:]) != 0 {
		return nil, 0, fault.Corrupt("the reserved field of the footer is not 0")
	}
	return b[:length], at, nil
}

// readAt fills b from file offset off.
func readAt(r io.ReaderAt, b []byte, off uint64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, int64(off))
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Truncated("the file ends early").At(-1, int64(off)+int64(n))
	}
	return fault.IO("reading", err).At(-1, int64(off))
}
