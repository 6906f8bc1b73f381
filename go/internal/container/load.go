package container

import (
	"io"
	"math"

	"github.com/ulpack/ulpack/go/internal/blob"
)

// All as an Item's Count means all elements of the tensor.
const All = math.MaxUint64

// Item asks for a tensor, or a range of its elements in row-major order.
type Item struct {
	Tensor       int
	Ref          []byte // the whole reference tensor; nil for none. Other items may need it too
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
//
// A tensor whose value another one needs is decoded with it, whether an item asks for it or not. A reference that another
// tensor needs is taken from an item of the tensor it belongs to, which may ask for no elements.
func Load(r io.ReaderAt, size int64, items []Item, opt LoadOptions) error {
	x, err := ReadIndex(r, size)
	if err != nil {
		return err
	}
	l := &loader{r: r, x: x, opt: opt, workers: make([]*blob.Scratch, opt.threads()), byTensor: make([][]*member, len(x.Tensors))}
	defer l.release()
	defer l.report()
	if err := l.resolve(items); err != nil {
		return err
	}
	l.refuse()
	inPlace, err := l.checkOverlaps()
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

// report gives the errors of the tensors to the items.
func (l *loader) report() {
	for _, m := range l.members {
		m.report()
	}
}
