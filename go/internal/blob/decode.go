package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Chunk decodes chunk j into dst: check what it is decoded against, decode, check the value. coded is the Extent of the
// chunk; slots holds the chunks of the slots, those of role 1 decoded and checked before. dst may be the memory of the chunk
// of the own reference. What dst holds after an error is unspecified.
func (d *Decoder) Chunk(j uint64, dst []byte, slots [][]byte, coded []byte, s *Scratch) error {
	if err := d.CheckSlots(j, slots); err != nil {
		return err
	}
	if err := d.decode(j, dst, slots, coded, s); err != nil {
		return inBlob(err)
	}
	return d.checkValue(j, Hash(dst))
}

// decode decodes the chunk without checking hashes.
func (d *Decoder) decode(j uint64, dst []byte, slots [][]byte, coded []byte, s *Scratch) error {
	switch d.record.Plan {
	case PlanStored:
		if &dst[0] != &coded[0] { // a caller may have read it to where it belongs
			copy(dst, coded)
		}
	case PlanIdentical:
		copy(dst, slots[0])
	case PlanConstant:
		repeat(dst, d.constant)
	default:
		body, err := d.body(j, coded)
		if err != nil {
			return err
		}
		return d.decodeChunk(j, dst, slots, body, s)
	}
	return nil
}

// repeat fills dst with copies of item.
func repeat(dst, item []byte) {
	n := copy(dst, item)
	for n > 0 && n < len(dst) {
		n += copy(dst[n:], dst[:n])
	}
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

// decodeChunk decodes a chunk of a coded plan.
func (d *Decoder) decodeChunk(j uint64, dst []byte, slots [][]byte, body []byte, s *Scratch) error {
	h := d.head
	elements := len(dst) / d.g.DType.ItemSize
	c := &tensorChunk{g: &d.g, index: j, elements: elements, slots: slots, dtypes: d.dtypes, own: d.own}
	v := s.looker.view(h, c)
	switch {
	case h.rows != nil:
		s.coded = sized(s.coded, v.lanes*h.spec.Width/8)
		if v.lanes > 0 {
			if err := d.decodeBody(s.coded, &v, body, s); err != nil {
				return err
			}
		}
		h.rows.program.Predict(dst, slots, &d.g.DType, d.dtypes)
		h.rows.scatter(dst, s.coded, j*uint64(d.g.DType.ChunkElems()*d.g.DType.Components), h.spec.Width/8)
		return nil
	case h.drop > 0:
		s.coded = sized(s.coded, v.lanes*h.spec.Width/8)
		if err := d.decodeBody(s.coded, &v, body, s); err != nil {
			return err
		}
		widen(dst, s.coded, d.g.DType.Width, h.spec.Width, h.drop)
		return nil
	}
	return d.decodeBody(dst, &v, body, s)
}
