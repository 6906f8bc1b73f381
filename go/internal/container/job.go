package container

import (
	"sync"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// job is an item with what the file says about its tensor.
type job struct {
	item  *Item
	entry *Entry
	ref   []byte
	out   []byte // nil: decoded chunks are thrown away

	from, to    uint64 // bytes of the value that are asked for
	first, last uint64 // chunks that hold them, last not included
	whole       bool   // all chunks

	mu     sync.Mutex
	failed uint64 // chunk of item.Err
}

// newJob checks the range of an item.
func newJob(it *Item, e *Entry, verifyOnly bool) (*job, *fault.Error) {
	g := &e.Geometry
	count := it.Count
	if it.First > g.Elements {
		return nil, fault.Argument("the range starts at element %d of %d", it.First, g.Elements)
	}
	if count == All {
		count = g.Elements - it.First
	}
	if count > g.Elements-it.First {
		return nil, fault.Argument("the range has %d elements from element %d on, the tensor %d", count, it.First, g.Elements)
	}
	j := &job{item: it, entry: e, ref: it.Ref}
	size := uint64(g.DType.ItemSize)
	j.from, j.to = it.First*size, (it.First+count)*size
	if !verifyOnly {
		if uint64(len(it.Out)) != j.to-j.from {
			return nil, fault.Argument("the output has %d bytes, the range %d", len(it.Out), j.to-j.from)
		}
		j.out = it.Out
	}
	j.whole = count == g.Elements
	if count > 0 {
		j.first = j.from / g.ChunkBytes()
		j.last = (j.to-1)/g.ChunkBytes() + 1
	}
	return j, nil
}

// fail records an error of a chunk; the one of the first chunk stays.
func (j *job) fail(chunk uint64, err error) {
	e := fault.From(err).At(j.item.Tensor, int64(j.entry.Tail.Offset))
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.item.Err == nil || chunk < j.failed {
		j.item.Err, j.failed = e, chunk
	}
}

// failedBefore reports whether an earlier chunk than this, or this, has failed.
func (j *job) failedBefore(chunk uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.item.Err != nil && j.failed <= chunk
}

// chunk decodes chunk i, given its coded bytes, to its place in the output; progress is counted by the caller.
func (j *job) chunk(d *blob.Decoder, i uint64, coded []byte, s *blob.Scratch, checkOnly bool) error {
	from, to := j.entry.Geometry.Chunk(i)
	var ref []byte
	if d.NeedsReference() {
		if j.ref == nil {
			return nil // only when verifying: nothing more can be checked
		}
		ref = j.ref[from:to]
		if checkOnly {
			return d.CheckReference(i, ref)
		}
	} else if checkOnly {
		return nil
	}
	if dst := j.place(from, to); dst != nil {
		return d.Chunk(i, dst, ref, coded, s)
	}
	dst := s.Chunk(int(to - from))
	if err := d.Chunk(i, dst, ref, coded, s); err != nil || j.out == nil {
		return err
	}
	lo, hi := max(from, j.from), min(to, j.to)
	copy(j.out[lo-j.from:], dst[lo-from:hi-from])
	return nil
}

// place is the place of the bytes from .. to of the value in the output, nil if they are not all asked for.
func (j *job) place(from, to uint64) []byte {
	if j.out == nil || from < j.from || to > j.to {
		return nil
	}
	return j.out[from-j.from : to-j.from]
}
