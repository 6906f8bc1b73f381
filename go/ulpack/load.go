package ulpack

import (
	"io"

	"github.com/ulpack/ulpack/go/internal/container"
)

// All as an Item's Count means all elements from First on.
const All = container.All

// Item asks Load for a tensor, or for a range of its elements in row-major order.
type Item struct {
	Tensor       int    // index in the file
	Ref          []byte // the whole reference tensor, nil for none; it serves other items that need it, too
	Out          []byte // where the elements go: exactly the bytes of the range. It may be their place in Ref
	First, Count uint64 // the range

	Err         error  // set by Load: what was wrong with this item, or nil
	Fingerprint uint64 // set by Load: of the whole value, as recorded in the file
}

// Load decodes the items, which may be in any order, from a file of size bytes. It checks the references, the checksums of
// the blobs and the fingerprints of what it wrote; a range is checked chunk by chunk, and only the chunks it touches are read.
//
// The first error ends the call, and outputs are then unspecified; with Salvage the call goes on and items have their own
// errors. An output that lies in its own reference, at the place of the range, is decoded in place: then all blobs and
// references are checked before the first write, so that a damaged file or a wrong reference leaves the memory untouched.
// Outputs must not overlap otherwise.
//
// In a file made with Relate a tensor may need others: their values, which are decoded without being asked for, and their
// references, which come from items for these tensors; one with Count 0 does for that. The index lists under "needs" whose
// references a tensor takes.
func Load(r io.ReaderAt, size int64, items []Item, opt Options) error {
	return guard(func() error {
		common, err := opt.common()
		if err != nil {
			return err
		}
		inner := make([]container.Item, len(items))
		for i := range items {
			it := &items[i]
			it.Err, it.Fingerprint = nil, 0
			inner[i] = container.Item{Tensor: it.Tensor, Ref: it.Ref, Out: it.Out, First: it.First, Count: it.Count}
		}
		err = container.Load(r, size, inner, container.LoadOptions{Options: common, Salvage: opt.Salvage, VerifyOnly: opt.VerifyOnly})
		for i := range items {
			items[i].Err, items[i].Fingerprint = inner[i].Err, inner[i].Fingerprint
		}
		return err
	})
}

// IndexJSON returns the index of a file of size bytes as UTF-8 JSON (FORMAT.md annex A). It checks everything but the blobs.
func IndexJSON(r io.ReaderAt, size int64) (index []byte, err error) {
	err = guard(func() error {
		index, err = container.IndexJSON(r, size)
		return err
	})
	return index, err
}
