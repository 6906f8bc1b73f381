package container

import (
	"bufio"
	"encoding/binary"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/schedule"
	"github.com/ulpack/ulpack/go/internal/sidecoder"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Data is the memory of a tensor to save; Ref is nil where there is no reference. Both are only read.
type Data struct{ Target, Ref []byte }

// Options steer Save and Load. They never change bytes.
type Options struct {
	Threads  int     // 0: number of CPUs
	Cancel   *int32  // polled between chunks; may be nil
	Progress *uint64 // raw bytes done so far; may be nil
}

func (o *Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}

func (o *Options) progress(n uint64) {
	if o.Progress != nil {
		atomic.AddUint64(o.Progress, n)
	}
}

// SaveOptions steer Save.
type SaveOptions struct {
	Options
	Relate bool // tensors may be stored as they follow from others of the file
}

// window is how many finished pieces may wait for their turn.
func (o *Options) window() int { return 2*o.threads() + 2 }

// Save writes a file of the tensors of d with these values: front, blobs, tail, footer. It fills the tail entries and the
// order of d.
func Save(w io.Writer, d *Directory, data []Data, opt SaveOptions) (results []blob.Result, written int64, err error) {
	d.Minor = MinorFormat
	var others []related
	if opt.Relate && d.Effort > effortFast {
		if others, err = relate(d, data, opt.Options); err != nil {
			return nil, 0, err
		}
	}
	start, err := marshalFront(d)
	if err != nil {
		return nil, 0, err
	}
	out := newOutput(w)
	if err := out.write(start); err != nil {
		return nil, out.written(), err
	}
	s := newSaver(d, data, others, out, opt.Options)
	defer s.release()
	if err := schedule.Run(s.schedule(), s.next); err != nil {
		return nil, out.written(), err
	}
	if err := out.write(marshalEnd(marshalTail(d.Tensors), out.at)); err != nil {
		return nil, out.written(), err
	}
	err = out.flush()
	return s.results, out.written(), err
}

// marshalFront returns the file up to the first blob.
func marshalFront(d *Directory) ([]byte, error) {
	plain := d.marshal()
	if len(plain) > maxDirectory {
		return nil, fault.Limit("a directory of %d bytes, at most 2^28 are allowed", len(plain))
	}
	coded := sidecoder.EncodeText(plain)
	if uint64(len(plain)) > ratioBase+ratioFactor*uint64(len(coded)) {
		return nil, fault.Limit("names, structure and metadata repeat themselves too much: %d bytes coded in %d", len(plain), len(coded))
	}
	b := make([]byte, 0, prefixLen+len(coded))
	b = append(b, magic...)
	b = append(b, MajorFormat, d.Minor, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(coded)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(plain)))
	b = binary.LittleEndian.AppendUint32(b, frontChecksum(b[8:], coded))
	return append(b, coded...), nil
}

// marshalEnd returns the tail, which starts at file offset at, with the footer.
func marshalEnd(tail []byte, at uint64) []byte {
	b := binary.LittleEndian.AppendUint64(tail, at)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(tail)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, blob.Hash(b))
	return append(b, endMagic...)
}

// SaveBound is an upper bound of the file that Save writes. No small blob is larger than its stored form; whether a large one
// is stored is decided ahead of coding.
func SaveBound(d *Directory) (int64, error) {
	start, err := marshalFront(d)
	if err != nil {
		return 0, err
	}
	const (
		slack    = 64 // the coded directory depends a little on the effort and the order
		maxRole  = 1 + wire.MaxVarintLen + 8
		maxTail  = minTailEntry + wire.MaxVarintLen + blob.MaxSlots*maxRole + 8 + wire.MaxVarintLen
		maxTable = 8
	)
	bound := uint64(len(start) + slack + footerLen)
	for i := range d.Tensors {
		g := &d.Tensors[i].Geometry
		bound += g.NBytes() + maxTable*(g.Chunks()+1) + 1 + wire.MaxVarintLen + maxTail
		if g.Chunks() > blob.SmallChunks {
			bound += g.MaxCodedOverhead()
		}
		if bound >= 1<<62 {
			return 0, fault.Limit("the tensors have 2^62 bytes or more")
		}
	}
	return int64(bound), nil
}

// output writes to w and counts.
type output struct {
	w    *bufio.Writer
	at   uint64 // bytes accepted
	sink *counting
}

// counting counts what reaches the caller's writer.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

const outputBuffer = 1 << 16

func newOutput(w io.Writer) *output {
	sink := &counting{w: w}
	return &output{w: bufio.NewWriterSize(sink, outputBuffer), sink: sink}
}

func (o *output) write(b []byte) error {
	n, err := o.w.Write(b)
	o.at += uint64(n)
	if err != nil {
		return fault.IO("writing", err)
	}
	return nil
}

func (o *output) flush() error {
	if err := o.w.Flush(); err != nil {
		return fault.IO("writing", err)
	}
	return nil
}

// written is how many bytes have reached the caller's writer.
func (o *output) written() int64 { return o.sink.n }
