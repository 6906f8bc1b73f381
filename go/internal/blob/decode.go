package blob

import (
	"errors"
	"fmt"

	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/transform"
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

// CheckSlots checks chunk j of the references that the tensor needs, its own and those of others. slots has an entry a slot;
// nil is not checked.
func (d *Decoder) CheckSlots(j uint64, slots [][]byte) error {
	for i := range d.record.Slots {
		slot := &d.record.Slots[i]
		if !hashed(slot.Role) || slots[i] == nil {
			continue
		}
		h := Hash(slots[i])
		var ok bool
		switch {
		case d.table == nil:
			ok = d.g.with(&slot.DType).fingerprintOf(func(uint64) uint64 { return h }) == slot.Fingerprint
		case d.record.Plan == PlanIdentical:
			ok = h == d.table.hashes[j]
		default:
			ok = h == d.table.slotHashes[i][j]
		}
		if !ok {
			return &SlotError{Slot: i, Chunk: j}
		}
	}
	return nil
}

// SlotError tells which slot holds another tensor than the file was made against.
type SlotError struct {
	Slot  int
	Chunk uint64
}

func (e *SlotError) Error() string {
	return fmt.Sprintf("not the tensor that the file was made against (chunk %d differs)", e.Chunk)
}

// checkValue checks the hash h of chunk j of the value.
func (d *Decoder) checkValue(j, h uint64) error {
	ok := true
	switch {
	case d.record.Plan == PlanConstant: // CheckConstant
	case d.table == nil:
		ok = d.g.fingerprintOf(func(uint64) uint64 { return h }) == d.record.Fingerprint
	default:
		ok = h == d.table.hashes[j]
	}
	if !ok {
		return fault.Corrupt("the decoded chunk %d does not have the recorded hash", j)
	}
	return nil
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

// decodeBody decodes a chunk body (section 11) to the lane values of a view.
func (d *Decoder) decodeBody(dst []byte, v *view, body []byte, s *Scratch) error {
	kind, code := body[0]&(1<<bodyKindBits-1), body[0]>>bodyKindBits
	rest := body[1:]
	if kind == bodySparse && d.record.Minor < 1 {
		return fault.Unsupported("chunk kind %d", kind)
	}
	if code>>bodyLaneBits != 0 || (kind == bodyStored || kind == bodyUnchanged) && code != 0 {
		return fault.Corrupt("a chunk body that starts with %#x", body[0])
	}
	switch kind {
	case bodyStored:
		if len(rest) != len(dst) {
			return fault.Corrupt("%d stored bytes of a chunk of %d", len(rest), len(dst))
		}
		copy(dst, rest)
		return nil
	case bodyUnchanged:
		if len(rest) != 0 {
			return fault.Corrupt("%d bytes in an unchanged chunk", len(rest))
		}
		if v.ref != nil {
			copy(dst, v.ref)
		} else {
			clear(dst)
		}
		return nil
	case bodySparse:
		return d.decodeSparse(dst, v, rest, 1<<(2*code), s)
	}
	return d.decodeCoded(dst, v, rest, 1<<(2*code), s)
}

// decodeSparse decodes a sparse chunk (section 18).
func (d *Decoder) decodeSparse(dst []byte, v *view, rest []byte, lanes int, s *Scratch) error {
	if !d.mayOmit {
		return fault.Corrupt("a sparse chunk under a header that does not allow it")
	}
	d.omitted.Do(func() { d.sparse.InitDecoder(d.model) })
	s.clusters = sized(s.clusters, v.lanes)
	d.head.clusters(s.clusters, v, d.model.ContextMap)
	err := d.sparse.Decode(dst, v.ref, s.clusters, &d.head.spec, rest, lanes, &s.sparse)
	var own *fault.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return fault.Corrupt("a sparse chunk: %v", err)
}

// decodeCoded decodes words, raw plane and tail: clusters from the contexts, tokens from the words, values from both and
// the raw bits.
func (d *Decoder) decodeCoded(dst []byte, v *view, rest []byte, lanes int, s *Scratch) error {
	spec := &d.head.spec
	m := v.lanes
	r := wire.NewReader(rest)
	nwords := r.Varint()
	states := r.Bytes(uint64(stateBytes * lanes))
	if nwords > uint64(m) {
		return fault.Corrupt("%d words for %d lane values", nwords, m)
	}
	words := r.Bytes(2 * nwords)
	if err := r.Err(); err != nil {
		return err
	}

	s.clusters = sized(s.clusters, m)
	d.head.clusters(s.clusters, v, d.model.ContextMap)
	coder := d.tables(s)

	var lane rans.Decoder
	if !lane.Init(lanes, states, words) {
		return fault.Corrupt("a state out of range")
	}
	s.tokens = sized(s.tokens, m)
	if !coder.Decode(s.tokens, s.clusters, &lane) || !lane.Finished() {
		return fault.Corrupt("the entropy coded part does not end where it should")
	}

	planeBytes := uint64(spec.K/8) * uint64(transform.PlaneValues(spec.Map, s.tokens))
	plane := r.Bytes(planeBytes)
	tail := r.Bytes(uint64(r.Len()))
	if err := r.Err(); err != nil {
		return err
	}
	var raw transform.RawReader
	raw.Init(plane, tail)
	if !spec.Join(dst, v.ref, s.tokens, &raw) || !raw.Done() {
		return fault.Corrupt("the raw bits do not end where they should, or a value is out of range")
	}
	return nil
}

// tables returns the decoding tables for the clusters in s. Reduced tables hold only the rows that occur.
func (d *Decoder) tables(s *Scratch) *rans.DecTables {
	if !d.reduced {
		return &d.coder
	}
	var place [256]uint8 // row of each cluster, plus 1
	s.rows = s.rows[:0]
	for i, c := range s.clusters {
		if place[c] == 0 {
			s.rows = append(s.rows, d.model.Freq[c])
			place[c] = uint8(len(s.rows))
		}
		s.clusters[i] = place[c] - 1
	}
	s.coder.Build(s.rows, d.model.TableLog)
	return &s.coder
}

// CheckConstant checks the fingerprint of a constant tensor; the other plans are checked chunk by chunk.
func (d *Decoder) CheckConstant(s *Scratch) error {
	n := d.g.Chunks()
	if d.record.Plan != PlanConstant || n == 0 {
		return nil
	}
	hash := func(j uint64) uint64 {
		from, to := d.g.Chunk(j)
		s.chunk = sized(s.chunk, int(to-from))
		repeat(s.chunk, d.constant)
		return Hash(s.chunk)
	}
	full, last := hash(0), hash(n-1)
	got := d.g.fingerprintOf(func(j uint64) uint64 {
		if j < n-1 {
			return full
		}
		return last
	})
	if got != d.record.Fingerprint {
		return fault.Corrupt("the constant does not have the recorded fingerprint")
	}
	return nil
}
