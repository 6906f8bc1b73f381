package container

import (
	"encoding/binary"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// TailEntry is a tensor's part of the tail (FORMAT.md section 5.3), and where its blob lies.
type TailEntry struct {
	Plan        uint8
	NBytes      uint64            // of the blob
	Fingerprint uint64            // of the value
	Slots       []blob.SlotRecord // the tensors that the blob needs, their roles and fingerprints
	Checksum    uint64            // of the blob; 32 bits if it is short, 0 if it is empty

	// Not stored, it follows from the others.
	Offset    uint64 // of the blob in the file
	Delimited bool   // the blob says itself where it ends: the length before it is 0
}

// prefixLength is the length before the blob.
func (e *TailEntry) prefixLength() uint64 {
	if e.Delimited {
		return 0
	}
	return e.NBytes
}

// prefixSize is the size of the plan and the length before the blob.
func (e *TailEntry) prefixSize() uint64 { return 1 + uint64(wire.VarintLen(e.prefixLength())) }

// appendPrefix appends the plan and the length that precede the blob.
func (e *TailEntry) appendPrefix(b []byte) []byte {
	return wire.AppendVarint(append(b, e.Plan), e.prefixLength())
}

// delimits reports whether a blob has length 0 before it: large ones, which are written while they are coded.
func delimits(minor uint8, plan uint8, g *blob.Geometry) bool {
	return minor >= 1 && blob.IsCoded(plan) && g.Chunks() > blob.SmallChunks
}

// reference is the record of the tensor's own reference, nil if it is not needed.
func (e *TailEntry) reference() *blob.SlotRecord {
	for i := range e.Slots {
		if e.Slots[i].Role == blob.RoleReference {
			return &e.Slots[i]
		}
	}
	return nil
}

// checksum is the checksum of a blob as the tail holds it.
func checksum(b []byte) uint64 { return checksumOfHash(uint64(len(b)), blob.Hash(b)) }

// checksumOfHash is the checksum of a blob of n bytes whose hash is h.
func checksumOfHash(n, h uint64) uint64 {
	switch {
	case n == 0:
		return 0
	case n < smallChecksum:
		return h & 0xffffffff
	}
	return h
}

func (e *TailEntry) append(b []byte) []byte {
	b = append(b, e.Plan)
	b = wire.AppendVarint(b, e.NBytes)
	b = binary.LittleEndian.AppendUint64(b, e.Fingerprint)
	b = wire.AppendVarint(b, uint64(len(e.Slots)))
	for i := range e.Slots {
		s := &e.Slots[i]
		b = append(b, s.Role)
		if s.Role != blob.RoleReference {
			b = wire.AppendVarint(b, uint64(s.Tensor))
		}
		if s.Role != blob.RoleValue {
			b = binary.LittleEndian.AppendUint64(b, s.Fingerprint)
		}
	}
	switch {
	case e.NBytes == 0:
	case e.NBytes < smallChecksum:
		b = binary.LittleEndian.AppendUint32(b, uint32(e.Checksum))
	default:
		b = binary.LittleEndian.AppendUint64(b, e.Checksum)
	}
	return b
}

func (e *TailEntry) read(r *wire.Reader, minor uint8, tensors int) error {
	e.Plan = r.U8()
	e.NBytes = r.Varint()
	e.Fingerprint = r.U64()
	roles := r.Varint()
	if roles > blob.MaxSlots {
		return fault.Corrupt("tail: %d roles", roles)
	}
	for range roles {
		s := blob.SlotRecord{Role: r.U8()}
		if r.Err() == nil && (s.Role > blob.RoleOtherReference || s.Role > blob.RoleReference && minor < 1) {
			return fault.Unsupported("tail: role %d", s.Role)
		}
		if s.Role != blob.RoleReference {
			i := r.Varint()
			if i >= uint64(tensors) {
				return fault.Corrupt("tail: role %d of tensor %d of %d", s.Role, i, tensors)
			}
			s.Tensor = int(i)
		}
		if s.Role != blob.RoleValue {
			s.Fingerprint = r.U64()
		}
		if r.Err() != nil {
			return r.Err()
		}
		for k := range e.Slots {
			if e.Slots[k].Role == s.Role && e.Slots[k].Tensor == s.Tensor {
				return fault.Corrupt("tail: role %d is listed twice", s.Role)
			}
		}
		e.Slots = append(e.Slots, s)
	}
	switch {
	case e.NBytes == 0:
	case e.NBytes < smallChecksum:
		e.Checksum = uint64(r.U32())
	default:
		e.Checksum = r.U64()
	}
	return r.Err()
}

// marshalTail returns the tail of all tensors.
func marshalTail(tensors []Entry) []byte {
	b := make([]byte, 0, 32*len(tensors))
	for i := range tensors {
		b = tensors[i].Tail.append(b)
	}
	return b
}

// unmarshalTail fills the tail entries and blob offsets; the first blob's prefix is at file offset first and the last
// blob must end at end.
func (d *Directory) unmarshalTail(tail []byte, first, end uint64) error {
	r := wire.NewReader(tail)
	for i := range d.Tensors {
		t := &d.Tensors[i].Tail
		if err := t.read(&r, d.Minor, len(d.Tensors)); err != nil {
			return tailError(err).At(i, -1)
		}
		t.Delimited = delimits(d.Minor, t.Plan, &d.Tensors[i].Geometry)
	}
	if r.Len() > 0 {
		return fault.Corrupt("tail: %d bytes after its end", r.Len())
	}
	if err := d.checkRoles(); err != nil {
		return err
	}
	at := first
	for place := range d.Tensors {
		i := d.at(place)
		t := &d.Tensors[i].Tail
		t.Offset = at + t.prefixSize()
		if t.Offset > end || t.NBytes > end-t.Offset {
			return fault.Corrupt("tail: a blob of %d bytes reaches into the tail", t.NBytes).At(i, int64(at))
		}
		at = t.Offset + t.NBytes
	}
	if at != end {
		return fault.Corrupt("tail: %d bytes between the last blob and the tail", end-at).At(-1, int64(at))
	}
	return nil
}

func tailError(err error) *fault.Error {
	e := fault.From(err)
	if e.Kind == fault.KindTruncated { // its length was checked before
		return fault.Corrupt("tail: %s", e.Msg)
	}
	return e
}
