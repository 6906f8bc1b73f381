package container

import "github.com/ulpack/ulpack/go/internal/fault"

// request is an item with what the file says about its tensor.
type request struct {
	item *Item
	out  []byte // nil: decoded chunks are thrown away

	from, to    uint64 // bytes of the value that are asked for
	first, last uint64 // chunks that hold them, last not included
}

// newRequest checks the range of an item.
func newRequest(it *Item, e *Entry, verifyOnly bool) (*request, *fault.Error) {
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
	r := &request{item: it}
	size := uint64(g.DType.ItemSize)
	r.from, r.to = it.First*size, (it.First+count)*size
	if !verifyOnly {
		if uint64(len(it.Out)) != r.to-r.from {
			return nil, fault.Argument("the output has %d bytes, the range %d", len(it.Out), r.to-r.from)
		}
		r.out = it.Out
	}
	if count > 0 {
		r.first = r.from / g.ChunkBytes()
		r.last = (r.to-1)/g.ChunkBytes() + 1
	}
	return r, nil
}

// wants reports whether the range has a part of chunk i.
func (r *request) wants(i uint64) bool { return r.first <= i && i < r.last }

// place is the place of the bytes from .. to of the value in the output, nil if they are not all asked for.
func (r *request) place(from, to uint64) []byte {
	if r.out == nil || from < r.from || to > r.to {
		return nil
	}
	return r.out[from-r.from : to-r.from]
}

// copy copies what the range has of the bytes from .. of the value to the output.
func (r *request) copy(value []byte, from uint64) {
	to := from + uint64(len(value))
	lo, hi := max(from, r.from), min(to, r.to)
	if r.out != nil && lo < hi {
		copy(r.out[lo-r.from:], value[lo-from:hi-from])
	}
}
