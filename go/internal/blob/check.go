package blob

import (
	"fmt"

	"github.com/ulpack/ulpack/go/internal/fault"
)

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
