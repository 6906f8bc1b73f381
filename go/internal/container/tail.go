package container

import (
	"encoding/binary"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// TailEntry is a tensor's part of the tail (FORMAT.md section 5.3), and where its blob lies.
type TailEntry struct {
	Plan           uint8
	NBytes         uint64 // of the blob
	Offset         uint64 // of the blob in the file; not stored, it follows from the lengths
	Fingerprint    uint64 // of the value
	NeedsReference bool   // role 0 is listed
	RefFingerprint uint64
	Checksum       uint64 // of the blob; 32 bits if it is short, 0 if it is empty
}

// prefixSize is the size of the plan and the length before the blob.
func (e *TailEntry) prefixSize() uint64 { return 1 + uint64(wire.VarintLen(e.NBytes)) }

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
	if e.NeedsReference {
		b = append(b, 1, roleReference)
		b = binary.LittleEndian.AppendUint64(b, e.RefFingerprint)
	} else {
		b = append(b, 0)
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

func (e *TailEntry) read(r *wire.Reader) error {
	e.Plan = r.U8()
	e.NBytes = r.Varint()
	e.Fingerprint = r.U64()
	roles := r.Varint()
	for i := range roles {
		role := r.U8()
		fingerprint := r.U64()
		switch {
		case r.Err() != nil:
			return r.Err()
		case role != roleReference:
			return fault.Unsupported("tail: role %d", role)
		case i > 0:
			return fault.Corrupt("tail: role %d is listed twice", role)
		}
		e.NeedsReference, e.RefFingerprint = true, fingerprint
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
func unmarshalTail(tail []byte, tensors []Entry, first, end uint64) error {
	r := wire.NewReader(tail)
	at := first
	for i := range tensors {
		e := &tensors[i].Tail
		if err := e.read(&r); err != nil {
			return tailError(err).At(i, -1)
		}
		if err := checkRoles(&tensors[i]); err != nil {
			return err.At(i, -1)
		}
		e.Offset = at + e.prefixSize()
		if e.Offset > end || e.NBytes > end-e.Offset {
			return fault.Corrupt("tail: a blob of %d bytes reaches into the tail", e.NBytes).At(i, int64(at))
		}
		at = e.Offset + e.NBytes
	}
	if r.Len() > 0 {
		return fault.Corrupt("tail: %d bytes after its end", r.Len())
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

// checkRoles checks the roles of a plan as far as the plan alone says; the blob's header says the rest.
func checkRoles(e *Entry) *fault.Error {
	needs := e.Tail.NeedsReference
	switch e.Tail.Plan {
	case blob.PlanStored, blob.PlanConstant:
		if needs {
			return fault.Corrupt("tail: plan %q with a reference", blob.PlanName(e.Tail.Plan))
		}
	case blob.PlanIdentical:
		if !needs {
			return fault.Corrupt("tail: plan %q without a reference", blob.PlanName(e.Tail.Plan))
		}
	}
	if needs && !e.HasReference {
		return fault.Corrupt("tail: a reference is needed that the directory does not name")
	}
	return nil
}
