package ulpack

import (
	"unicode/utf8"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/container"
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// DType is a dtype code of FORMAT.md section 2.
type DType uint8

// DTypeNamed is the code of dtypes without a code of their own: Tensor.DTypeName and ItemSize describe them.
const DTypeNamed DType = dtype.CodeNamed

// Tensor is a tensor to save: contiguous, row-major, little-endian.
type Tensor struct {
	Name      string // UTF-8, unique among the tensors of a file
	DType     DType
	DTypeName string // of DTypeNamed
	ItemSize  int    // bytes of an element, of DTypeNamed: 1 .. 2^20
	Shape     []uint64
	Data      []byte // product(Shape) elements; only read
	Ref       []byte // the reference: a tensor of the same dtype and shape, or nil; only read
	RefName   string // name of the reference where it was taken from; empty: the same name
}

// Limits of a named dtype (FORMAT.md sections 5.1 and 14).
const (
	maxItemSize  = 1 << 20
	maxDTypeName = 4096
)

// info returns the dtype of a tensor.
func (t *Tensor) info() (dtype.Info, error) {
	if t.DType != DTypeNamed {
		info, ok := dtype.Lookup(uint8(t.DType))
		if !ok {
			return info, fault.Argument("dtype code %d does not exist", t.DType)
		}
		return info, nil
	}
	switch {
	case t.ItemSize < 1 || t.ItemSize > maxItemSize:
		return dtype.Info{}, fault.Argument("elements of %d bytes; 1 to 2^20 are possible", t.ItemSize)
	case len(t.DTypeName) > maxDTypeName || !utf8.ValidString(t.DTypeName):
		return dtype.Info{}, fault.Argument("the dtype name is not UTF-8 or has more than %d bytes", maxDTypeName)
	}
	return dtype.Named(t.DTypeName, t.ItemSize), nil
}

// geometry checks dtype and shape.
func (t *Tensor) geometry() (blob.Geometry, error) {
	info, err := t.info()
	if err != nil {
		return blob.Geometry{}, err
	}
	for _, n := range t.Shape {
		if n >= 1<<63 {
			return blob.Geometry{}, fault.Limit("a dimension of 2^63 or more")
		}
	}
	return blob.NewGeometry(info, t.Shape)
}

// entry checks the tensor, but not its memory, and describes it for the directory.
func (t *Tensor) entry() (container.Entry, error) {
	g, err := t.geometry()
	if err != nil {
		return container.Entry{}, err
	}
	if !utf8.ValidString(t.Name) || !utf8.ValidString(t.RefName) {
		return container.Entry{}, fault.Argument("a name is not UTF-8")
	}
	e := container.Entry{Name: t.Name, Geometry: g, HasReference: t.Ref != nil, RefName: t.RefName}
	if e.RefName == "" {
		e.RefName = t.Name
	}
	return e, nil
}

// checkData checks the sizes of target and reference.
func (t *Tensor) checkData(g *blob.Geometry) error {
	if uint64(len(t.Data)) != g.NBytes() {
		return fault.Argument("the data has %d bytes, dtype and shape say %d", len(t.Data), g.NBytes())
	}
	if t.Ref != nil && uint64(len(t.Ref)) != g.NBytes() {
		return fault.Argument("the reference has %d bytes, dtype and shape say %d", len(t.Ref), g.NBytes())
	}
	return nil
}

// Fingerprint returns the fingerprint of a value: dtype, shape and every bit (FORMAT.md section 3). Name and reference do not
// matter.
func Fingerprint(t *Tensor) (fingerprint uint64, err error) {
	err = guard(func() error {
		g, err := t.geometry()
		if err != nil {
			return err
		}
		if uint64(len(t.Data)) != g.NBytes() {
			return fault.Argument("the data has %d bytes, dtype and shape say %d", len(t.Data), g.NBytes())
		}
		fingerprint = g.Fingerprint(t.Data)
		return nil
	})
	return fingerprint, err
}
