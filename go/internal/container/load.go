package container

import (
	"io"
	"math"
	"slices"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// All as an Item's Count means all elements of the tensor.
const All = math.MaxUint64

// Item asks for a tensor, or a range of its elements in row-major order.
type Item struct {
	Tensor       int
	Ref          []byte // the whole reference tensor; nil for none
	Out          []byte // the range; may lie in Ref, at its own place
	First, Count uint64

	Err         error  // set by Load
	Fingerprint uint64 // set by Load: of the whole value, as recorded in the file
}

// LoadOptions steer Load.
type LoadOptions struct {
	Options
	Salvage    bool // go on after a bad tensor; the verdict is in its item
	VerifyOnly bool // check and write nothing; Out is not used, and without Ref what needs it is not checked
}

// Load decodes the items. It checks the checksums of the blobs it reads whole, the references and the values. Where an item
// is decoded in place, checksums and references of all items are checked before anything is written.
func Load(r io.ReaderAt, size int64, items []Item, opt LoadOptions) error {
	x, err := ReadIndex(r, size)
	if err != nil {
		return err
	}
	l := &loader{r: r, x: x, opt: opt, workers: make([]*blob.Scratch, opt.threads())}
	defer l.release()
	if err := l.resolve(items); err != nil {
		return err
	}
	l.refuse()
	inPlace, err := checkOverlaps(l.jobs)
	if err != nil {
		return err
	}
	if inPlace {
		l.checkOnly = true
		if err := l.run(); err != nil {
			return err
		}
		l.checkOnly = false
	}
	return l.run()
}

// resolve makes a job of each item and checks what the call alone can get wrong.
func (l *loader) resolve(items []Item) error {
	for i := range items {
		it := &items[i]
		it.Err, it.Fingerprint = nil, 0
		if it.Tensor < 0 || it.Tensor >= len(l.x.Tensors) {
			return fault.Argument("item %d asks for tensor %d of %d", i, it.Tensor, len(l.x.Tensors))
		}
		j, err := newJob(it, &l.x.Tensors[it.Tensor], l.opt.VerifyOnly)
		if err != nil {
			return err.At(it.Tensor, -1)
		}
		it.Fingerprint = j.entry.Tail.Fingerprint
		l.jobs = append(l.jobs, j)
	}
	slices.SortStableFunc(l.jobs, func(a, b *job) int { return a.item.Tensor - b.item.Tensor })
	return nil
}

// refuse marks the jobs that cannot be done: their reference is missing or has the wrong size, or their blob is too large.
func (l *loader) refuse() {
	for _, j := range l.jobs {
		if t := &j.entry.Tail; t.NBytes > j.entry.Geometry.MaxNBytes() {
			j.fail(0, fault.Corrupt("a blob of %d bytes for a value of %d", t.NBytes, j.entry.Geometry.NBytes()))
		}
		if !j.entry.Tail.NeedsReference {
			j.ref = nil
			continue
		}
		want := j.entry.Geometry.NBytes()
		switch {
		case j.ref == nil && (l.opt.VerifyOnly || want == 0):
		case j.ref == nil:
			j.fail(0, fault.Reference("the reference %q is missing", j.entry.RefName))
		case uint64(len(j.ref)) != want:
			j.fail(0, fault.Reference("the reference %q has %d bytes, the file was made against %d", j.entry.RefName, len(j.ref), want))
		}
	}
}
