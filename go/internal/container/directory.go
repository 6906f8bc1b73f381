package container

import (
	"unicode/utf8"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Directory is what a file says about its tensors ahead of the blobs (FORMAT.md section 5.1).
type Directory struct {
	Minor     uint8 // of the format version
	Encoder   uint64
	Effort    uint64
	Metadata  string
	Structure string
	Tensors   []Entry
	Order     []int // the tensor at each place of the order of blobs; nil: the order of Tensors
}

// at is the tensor at a place of the order of blobs.
func (d *Directory) at(place int) int {
	if d.Order == nil {
		return place
	}
	return d.Order[place]
}

// places returns the place of each tensor in the order of blobs; nil: its own number.
func (d *Directory) places() []int {
	if d.Order == nil {
		return nil
	}
	places := make([]int, len(d.Order))
	for place, i := range d.Order {
		places[i] = place
	}
	return places
}

// Entry is a tensor's part of the directory, and of the tail once that has been read.
type Entry struct {
	Name         string
	Geometry     blob.Geometry
	HasReference bool   // a reference was given when the file was written
	RefName      string // its name; the tensor's own name for "same name"
	Tail         TailEntry
}

// marshal returns the plain form.
func (d *Directory) marshal() []byte {
	b := make([]byte, 0, len(d.Metadata)+len(d.Structure)+64*len(d.Tensors)+64)
	b = wire.AppendVarint(b, d.Encoder)
	b = wire.AppendVarint(b, d.Effort)
	b = wire.AppendString(b, d.Metadata)
	b = wire.AppendString(b, d.Structure)
	b = wire.AppendVarint(b, uint64(len(d.Tensors)))
	for i := range d.Tensors {
		b = wire.AppendString(b, d.Tensors[i].Name)
	}
	for i := range d.Tensors {
		b = appendDType(b, &d.Tensors[i].Geometry.DType)
	}
	for i := range d.Tensors {
		shape := d.Tensors[i].Geometry.Shape
		b = wire.AppendVarint(b, uint64(len(shape)))
		for _, n := range shape {
			b = wire.AppendVarint(b, n)
		}
	}
	for i := range d.Tensors {
		b = appendRefName(b, &d.Tensors[i])
	}
	if d.Minor >= 1 {
		b = appendOrder(b, d.Order)
	}
	return b
}

// appendOrder writes the order of blobs: the difference of each tensor to the one that would follow the one before.
func appendOrder(b []byte, order []int) []byte {
	if order == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	next := 0
	for _, i := range order {
		d := int64(i - next)
		b = wire.AppendVarint(b, uint64(d<<1^d>>63))
		next = i + 1
	}
	return b
}

// readOrder reads what appendOrder wrote.
func (d *Directory) readOrder(r *wire.Reader) error {
	explicit := r.Varint()
	if r.Err() != nil {
		return directoryError(r.Err())
	}
	if explicit > 1 {
		return fault.Corrupt("directory: %d instead of whether there is an order", explicit)
	}
	if explicit == 0 {
		return nil
	}
	order := make([]int, len(d.Tensors))
	seen := make([]bool, len(d.Tensors))
	next, moved := int64(0), false
	for place := range order {
		v := r.Varint()
		if r.Err() != nil {
			return directoryError(r.Err())
		}
		i := next + int64(v>>1^-(v&1))
		if i < 0 || i >= int64(len(order)) || seen[i] {
			return fault.Corrupt("directory: the order of blobs does not hold every tensor once")
		}
		order[place], seen[i] = int(i), true
		next = i + 1
		moved = moved || v != 0
	}
	if !moved {
		return fault.Corrupt("directory: the order of blobs is spelled out, but it is that of the tensors")
	}
	d.Order = order
	return nil
}

func appendDType(b []byte, d *dtype.Info) []byte {
	b = append(b, d.Code)
	if d.Code == dtype.CodeNamed {
		b = wire.AppendString(b, d.Name)
		b = wire.AppendVarint(b, uint64(d.ItemSize))
	}
	return b
}

func appendRefName(b []byte, e *Entry) []byte {
	switch {
	case !e.HasReference:
		return append(b, 0)
	case e.RefName == e.Name:
		return append(b, 1)
	}
	b = wire.AppendVarint(b, uint64(len(e.RefName))+1)
	return append(b, e.RefName...)
}

// unmarshal parses the plain form of d.Minor. maxN bounds the number of tensors before anything is allocated for them.
func (d *Directory) unmarshal(plain []byte, maxN uint64) error {
	r := wire.NewReader(plain)
	d.Encoder = r.Varint()
	d.Effort = r.Varint()
	d.Metadata = text(&r)
	d.Structure = string(r.Bytes(r.Varint()))
	n := r.Varint()
	if err := r.Err(); err != nil {
		return directoryError(err)
	}
	if !utf8.ValidString(d.Metadata) {
		return fault.Corrupt("directory: the metadata is not UTF-8")
	}
	if n > MaxTensors {
		return fault.Limit("directory: %d tensors, at most 2^24 are allowed", n)
	}
	if n > maxN {
		return fault.Corrupt("directory: %d tensors, but the tail has room for %d", n, maxN)
	}
	d.Tensors = make([]Entry, n)
	for _, section := range []func(*wire.Reader, []Entry) error{readNames, readDTypes, readShapes, readRefNames} {
		if err := section(&r, d.Tensors); err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			return directoryError(err)
		}
	}
	if d.Minor >= 1 {
		if err := d.readOrder(&r); err != nil {
			return err
		}
	}
	if r.Len() > 0 {
		return fault.Corrupt("directory: %d bytes after its end", r.Len())
	}
	return nil
}

// directoryError makes sure that a directory whose bytes run out counts as corrupt: its length was checked before.
func directoryError(err error) error { return fault.Corrupt("directory: %s", fault.From(err).Msg) }

func text(r *wire.Reader) string { return string(r.Bytes(r.Varint())) }

func readNames(r *wire.Reader, tensors []Entry) error {
	seen := make(map[string]struct{}, len(tensors))
	for i := range tensors {
		name := text(r)
		if r.Err() != nil {
			return nil
		}
		if !utf8.ValidString(name) {
			return fault.Corrupt("directory: the name is not UTF-8").At(i, -1)
		}
		if _, twice := seen[name]; twice {
			return fault.Corrupt("directory: the name %q appears twice", name).At(i, -1)
		}
		seen[name] = struct{}{}
		tensors[i].Name = name
	}
	return nil
}

func readDTypes(r *wire.Reader, tensors []Entry) error {
	for i := range tensors {
		code := r.U8()
		if code == dtype.CodeNamed {
			nameLen := r.Varint()
			if nameLen > maxDTypeName {
				return fault.Limit("directory: a dtype name of %d bytes, at most %d are allowed", nameLen, maxDTypeName).At(i, -1)
			}
			name := string(r.Bytes(nameLen))
			itemSize := r.Varint()
			if r.Err() != nil {
				return nil
			}
			if itemSize < 1 || itemSize > maxItemSize {
				return fault.Limit("directory: an element of %d bytes", itemSize).At(i, -1)
			}
			if !utf8.ValidString(name) {
				return fault.Corrupt("directory: the dtype name is not UTF-8").At(i, -1)
			}
			tensors[i].Geometry.DType = dtype.Named(name, int(itemSize))
			continue
		}
		info, ok := dtype.Lookup(code)
		if !ok {
			return fault.Unsupported("directory: dtype code %d", code).At(i, -1)
		}
		tensors[i].Geometry.DType = info
	}
	return nil
}

func readShapes(r *wire.Reader, tensors []Entry) error {
	var dims []uint64 // memory that many shapes share
	for i := range tensors {
		ndim := r.Varint()
		if ndim > blob.MaxDims {
			return fault.Limit("directory: %d dimensions, at most %d are allowed", ndim, blob.MaxDims).At(i, -1)
		}
		if cap(dims)-len(dims) < int(ndim) {
			dims = make([]uint64, 0, max(blob.MaxDims, min(2*len(tensors), 4096)))
		}
		first := len(dims)
		for range ndim {
			dims = append(dims, r.Varint())
		}
		if r.Err() != nil {
			return nil
		}
		g, err := blob.NewGeometry(tensors[i].Geometry.DType, dims[first:len(dims):len(dims)])
		if err != nil {
			return fault.Limit("directory: %s", fault.From(err).Msg).At(i, -1)
		}
		tensors[i].Geometry = g
	}
	return nil
}

func readRefNames(r *wire.Reader, tensors []Entry) error {
	for i := range tensors {
		k := r.Varint()
		e := &tensors[i]
		e.HasReference = k > 0
		switch {
		case k == 1:
			e.RefName = e.Name
		case k > 1:
			e.RefName = string(r.Bytes(k - 1))
			if e.RefName == e.Name {
				return fault.Corrupt("directory: the reference's name is the tensor's own, spelled out").At(i, -1)
			}
		}
		if !utf8.ValidString(e.RefName) {
			return fault.Corrupt("directory: the reference's name is not UTF-8").At(i, -1)
		}
	}
	return nil
}
