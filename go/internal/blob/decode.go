package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Chunk decodes chunk j into dst: check the reference, decode, check the value. coded is the Extent of the chunk; dst and
// ref hold the chunk of the value and of the reference (nil if it is not needed) and may be the same memory. What dst holds
// after an error is unspecified.
func (d *Decoder) Chunk(j uint64, dst, ref, coded []byte, s *Scratch) error {
	if err := d.CheckReference(j, ref); err != nil {
		return err
	}
	if err := d.decode(j, dst, ref, coded, s); err != nil {
		return inBlob(err)
	}
	return d.checkValue(j, Hash(dst))
}

// decode decodes the chunk without checking hashes.
func (d *Decoder) decode(j uint64, dst, ref, coded []byte, s *Scratch) error {
	switch d.record.Plan {
	case PlanStored:
		if &dst[0] != &coded[0] { // a caller may have read it to where it belongs
			copy(dst, coded)
		}
	case PlanIdentical:
		copy(dst, ref)
	case PlanConstant:
		repeat(dst, d.constant)
	default:
		body, err := d.body(j, coded)
		if err != nil {
			return err
		}
		return d.decodeBody(dst, ref, body, s)
	}
	return nil
}

// body returns the body of a chunk without the length before it, which must be that of the chunk table.
func (d *Decoder) body(j uint64, coded []byte) ([]byte, error) {
	if d.table == nil {
		return coded, nil
	}
	r := wire.NewReader(coded)
	length := r.Varint()
	if err := r.Err(); err != nil {
		return nil, err
	}
	if length != d.table.lengths[j] {
		return nil, fault.Corrupt("chunk %d has %d bytes, the chunk table says %d", j, length, d.table.lengths[j])
	}
	return coded[r.Offset():], nil
}

// repeat fills dst with copies of item.
func repeat(dst, item []byte) {
	n := copy(dst, item)
	for n > 0 && n < len(dst) {
		n += copy(dst[n:], dst[:n])
	}
}
