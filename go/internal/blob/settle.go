package blob

import (
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Settle completes the blob, given the length of each body; without bodies lengths is nil.
func (e *Encoder) Settle(lengths []uint64) {
	copy(e.table.lengths, lengths)
	stored := e.g.NBytes() + e.storedTable().sizeIf(e.multi())
	switch e.plan {
	case PlanCoded:
		e.memory = e.head.append(e.memory[:0])
		e.nbytes = uint64(len(e.memory)) + e.codedTable().sizeIf(e.multi())
		for _, n := range lengths {
			e.nbytes += n
			if e.multi() {
				e.nbytes += uint64(wire.VarintLen(n))
			}
		}
		if e.nbytes >= stored {
			e.plan, e.nbytes = PlanStored, stored
		}
	case PlanConstant:
		e.nbytes = uint64(e.g.DType.ItemSize)
	case PlanIdentical:
		e.nbytes = stored - e.g.NBytes()
	default:
		e.nbytes = stored
	}
}

func (e *Encoder) storedTable() *chunkTable { return &chunkTable{hashes: e.table.hashes} }

func (e *Encoder) codedTable() *chunkTable {
	t := &chunkTable{hashes: e.table.hashes, lengths: e.table.lengths}
	if e.needsReference() {
		t.refHashes = e.table.refHashes
	}
	return t
}

// sizeIf is the size of the table where there is one.
func (t *chunkTable) sizeIf(there bool) uint64 {
	if !there {
		return 0
	}
	return t.size()
}

// AppendHead appends what comes before the chunks.
func (e *Encoder) AppendHead(b []byte) []byte {
	switch e.plan {
	case PlanCoded:
		return e.head.append(b)
	case PlanConstant:
		return append(b, e.target[:e.g.DType.ItemSize]...)
	}
	return b
}

// AppendBodyPrefix appends what comes before the body of chunk j of a coded tensor.
func (e *Encoder) AppendBodyPrefix(b []byte, j int) []byte {
	if e.multi() {
		return wire.AppendVarint(b, e.table.lengths[j])
	}
	return b
}

// AppendFoot appends what comes after the chunks.
func (e *Encoder) AppendFoot(b []byte) []byte {
	switch {
	case !e.multi() || e.plan == PlanConstant:
		return b
	case e.plan == PlanCoded:
		return e.codedTable().append(b)
	}
	return e.storedTable().append(b)
}

// Result says what a blob holds.
type Result struct {
	Plan           uint8
	NBytes         uint64 // of the blob
	Fingerprint    uint64 // of the value
	NeedsReference bool
	RefFingerprint uint64
	Detail         Detail // of plan 3
}

// Result describes the blob after Settle.
func (e *Encoder) Result() Result {
	r := Result{Plan: e.plan, NBytes: e.nbytes, NeedsReference: e.needsReference()}
	r.Fingerprint = e.g.fingerprint(e.table.hashes)
	switch {
	case e.plan == PlanIdentical:
		r.RefFingerprint = r.Fingerprint
	case r.NeedsReference:
		r.RefFingerprint = e.g.fingerprint(e.table.refHashes)
	}
	if e.plan == PlanCoded {
		r.Detail = e.head.detail(e.model)
	}
	return r
}
