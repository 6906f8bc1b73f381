package blob

import (
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Settle completes the blob, given the length of each body; without bodies lengths is nil.
func (e *Encoder) Settle(lengths []uint64) {
	copy(e.table.lengths, lengths)
	stored := e.g.NBytes() + e.storedTable().sizeIf(e.multi())
	switch {
	case IsCoded(e.plan):
		e.nbytes = uint64(len(e.memory)) + e.codedTable().sizeIf(e.multi())
		for _, n := range lengths {
			e.nbytes += n
			if e.multi() {
				e.nbytes += uint64(wire.VarintLen(n))
			}
		}
		if e.small && e.nbytes >= stored {
			e.become(PlanStored)
			e.nbytes = stored
		}
	case e.plan == PlanConstant:
		e.nbytes = uint64(e.g.DType.ItemSize)
	case e.plan == PlanIdentical:
		e.nbytes = stored - e.g.NBytes()
	default:
		e.nbytes = stored
	}
}

func (e *Encoder) storedTable() *chunkTable { return &chunkTable{hashes: e.table.hashes} }

func (e *Encoder) codedTable() *chunkTable { return &e.table }

// sizeIf is the size of the table where there is one.
func (t *chunkTable) sizeIf(there bool) uint64 {
	if !there {
		return 0
	}
	return t.size()
}

// AppendHead appends what comes before the chunks.
func (e *Encoder) AppendHead(b []byte) []byte {
	switch {
	case IsCoded(e.plan):
		return append(b, e.memory...)
	case e.plan == PlanConstant:
		return append(b, e.target[:e.g.DType.ItemSize]...)
	}
	return b
}

// AppendBodyPrefix appends what comes before a body of n bytes of a coded tensor.
func (e *Encoder) AppendBodyPrefix(b []byte, n int) []byte {
	if e.multi() {
		return wire.AppendVarint(b, uint64(n))
	}
	return b
}

// AppendFoot appends what comes after the chunks.
func (e *Encoder) AppendFoot(b []byte) []byte {
	switch {
	case !e.multi() || e.plan == PlanConstant:
		return b
	case IsCoded(e.plan):
		return e.codedTable().append(b)
	}
	return e.storedTable().append(b)
}

// Result says what a blob holds.
type Result struct {
	Plan        uint8
	NBytes      uint64 // of the blob
	Fingerprint uint64 // of the value
	Slots       []SlotRecord
	Detail      Detail // of coded plans
}

// Result describes the blob after Settle.
func (e *Encoder) Result() Result {
	r := Result{Plan: e.plan, NBytes: e.nbytes}
	r.Fingerprint = e.g.fingerprint(e.table.hashes)
	for i := range e.slots {
		x := &e.slots[i]
		slot := SlotRecord{Role: x.Role, Tensor: x.Tensor, DType: x.DType}
		switch {
		case e.plan == PlanIdentical:
			slot.Fingerprint = r.Fingerprint
		case hashed(x.Role):
			slot.Fingerprint = e.g.with(&x.DType).fingerprint(e.table.slotHashes[i])
		}
		r.Slots = append(r.Slots, slot)
	}
	if IsCoded(e.plan) {
		r.Detail = e.head.detail(e.model)
	}
	return r
}
