package blob

import (
	"sync"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/sparse"
)

// Record is what the rest of a file says about a blob.
type Record struct {
	Minor       uint8 // of the file's format version
	Plan        uint8
	NBytes      uint64 // of the blob
	Fingerprint uint64 // of the value
	Slots       []SlotRecord
}

// Decoder decodes the chunks of one tensor. After Open it is read-only, so chunks may be decoded at the same time.
type Decoder struct {
	g      Geometry
	record Record

	table    *chunkTable // nil: at most one chunk, or PlanConstant
	bodies   []extent    // where the chunk bodies lie in the blob, the lengths before them not included
	constant []byte
	head     *header
	own      int // slot of the own reference
	dtypes   []dtype.Info
	model    *model.Tables
	coder    rans.DecTables
	reduced  bool // coder is built for each chunk, of the rows it uses

	mayOmit bool // sparse chunks are allowed
	omitted sync.Once
	sparse  sparse.Model
}

// extent is a range of bytes of a blob.
type extent struct{ from, to uint64 }

// Source returns a range of bytes of the blob. It is asked only for ranges within the blob, and what it returns stays
// valid while the Decoder is in use.
type Source func(from, to uint64) ([]byte, error)

// Open reads everything but the chunks and checks it.
func (d *Decoder) Open(g Geometry, record Record, source Source) error {
	d.g, d.record = g, record
	d.table, d.bodies, d.constant, d.head, d.model = nil, d.bodies[:0], nil, nil, nil
	d.dtypes, d.mayOmit, d.omitted = record.dtypes(), false, sync.Once{}
	coded := IsCoded(record.Plan)
	if record.Plan > PlanNarrow || record.Plan > PlanCoded && record.Minor < 1 {
		return fault.Unsupported("plan %d", record.Plan)
	}
	if g.Elements == 0 && (record.Plan == PlanConstant || coded) {
		return fault.Corrupt("plan %q for a tensor without elements", PlanName(record.Plan))
	}
	if record.Plan == PlanConstant {
		return d.openConstant(source)
	}
	tableAt, err := d.openTable(source)
	if err != nil {
		return err
	}
	switch record.Plan {
	case PlanStored:
		return d.openStored(tableAt)
	case PlanIdentical:
		return d.openIdentical(tableAt)
	}
	return d.openCoded(source, tableAt)
}

// forget drops what belongs to the caller.
func (d *Decoder) forget() { d.constant, d.table, d.head, d.model = nil, nil, nil, nil }

func (d *Decoder) openConstant(source Source) (err error) {
	if d.record.NBytes != uint64(d.g.DType.ItemSize) {
		return fault.Corrupt("a constant of %d bytes for elements of %d", d.record.NBytes, d.g.DType.ItemSize)
	}
	d.constant, err = source(0, d.record.NBytes)
	return err
}

// openTable reads the chunk table, if there is one, checks it against the fingerprints and returns where it starts.
func (d *Decoder) openTable(source Source) (at uint64, err error) {
	n := d.g.Chunks()
	at = d.record.NBytes
	if n == 0 {
		return at, d.checkEmpty()
	}
	if n == 1 {
		return at, nil
	}
	if at < tableLengthSize {
		return 0, fault.Corrupt("a blob of %d bytes for %d chunks", at, n)
	}
	end, err := source(at-tableLengthSize, at)
	if err != nil {
		return 0, err
	}
	size, err := tableSize(end, at)
	if err != nil {
		return 0, err
	}
	b, err := source(at-size, at)
	if err != nil {
		return 0, err
	}
	d.table, err = readChunkTable(b, n, IsCoded(d.record.Plan), d.record.Slots)
	if err != nil {
		return 0, err
	}
	if d.g.fingerprint(d.table.hashes) != d.record.Fingerprint {
		return 0, fault.Corrupt("the chunk hashes do not have the recorded fingerprint")
	}
	for i, hashes := range d.table.slotHashes {
		slot := &d.record.Slots[i]
		if hashes != nil && d.g.with(&slot.DType).fingerprint(hashes) != slot.Fingerprint {
			return 0, fault.Corrupt("the chunk hashes of slot %d do not have the recorded fingerprint", i)
		}
	}
	return at - size, nil
}

// checkEmpty checks the fingerprints of a tensor without elements, for which no chunk does it.
func (d *Decoder) checkEmpty() error {
	empty := d.g.fingerprint(nil)
	ok := d.record.Fingerprint == empty
	for i := range d.record.Slots { // plan 1: the reference
		ok = ok && d.record.Slots[i].Fingerprint == empty
	}
	if !ok {
		return fault.Corrupt("a tensor without elements with another fingerprint")
	}
	return nil
}

func (d *Decoder) openStored(tableAt uint64) error {
	if tableAt != d.g.NBytes() {
		return fault.Corrupt("%d stored bytes of a value of %d", tableAt, d.g.NBytes())
	}
	for j := range d.g.Chunks() {
		from, to := d.g.Chunk(j)
		d.bodies = append(d.bodies, extent{from, to})
	}
	return nil
}

func (d *Decoder) openIdentical(tableAt uint64) error {
	if tableAt != 0 {
		return fault.Corrupt("%d bytes in the blob of an identical tensor", tableAt)
	}
	if slots := d.record.Slots; len(slots) != 1 || slots[0].Role != RoleReference {
		return fault.Corrupt("an identical tensor without a reference, or with other tensors")
	}
	if d.record.Fingerprint != d.record.Slots[0].Fingerprint {
		return fault.Corrupt("an identical tensor with another fingerprint than its reference")
	}
	return nil
}

func (d *Decoder) openCoded(source Source, tableAt uint64) error {
	at, err := d.openHeader(source, tableAt)
	if err != nil {
		return err
	}
	if err := d.checkSlots(); err != nil {
		return err
	}
	if err := d.placeBodies(at, tableAt); err != nil {
		return err
	}
	if d.model, err = d.head.readModel(); err != nil {
		return err
	}
	d.mayOmit = d.record.Minor >= 1 && d.head.allowsSparse(&d.g)
	if d.head.program != nil {
		d.head.program.Prepare(&d.g.DType, d.g.Elements)
	}
	if d.head.rows != nil {
		d.head.rows.program.Prepare(&d.g.DType, d.g.Elements)
	}
	// Building all rows costs more than decoding a short chunk that uses few of them.
	d.reduced = d.g.Chunks() <= 1 && len(d.model.Freq) > 1 && d.head.codedLanes(&d.g) < 1<<16
	if !d.reduced {
		d.coder.Build(d.model.Freq, d.model.TableLog)
	}
	return nil
}

// checkSlots checks that the header uses every slot, and that the own reference is among them where it needs it.
func (d *Decoder) checkSlots() error {
	var used [MaxSlots]bool
	h := d.head
	if h.program != nil {
		for _, s := range h.program.Slots[:h.program.NumSlots()] {
			used[s] = true
		}
	}
	if h.rows != nil {
		for _, s := range h.rows.program.Slots[:h.rows.program.NumSlots()] {
			used[s] = true
		}
	}
	if h.beside != nil {
		used[h.beside.slot] = true
	}
	if h.program == nil && h.spec.Predictor == predictReference {
		d.own = -1
		for i := range d.record.Slots {
			if d.record.Slots[i].Role == RoleReference {
				d.own = i
			}
		}
		if d.own < 0 {
			return fault.Corrupt("predictor 1, but the tail lists no reference")
		}
		used[d.own] = true
	}
	for i := range d.record.Slots {
		if !used[i] {
			return fault.Corrupt("the tail lists a tensor that the blob does not use")
		}
	}
	return nil
}

// inBlob makes sure that a field which does not fit its blob counts as corrupt: the blob itself is complete.
func inBlob(err error) error {
	if e := fault.From(err); e.Kind == fault.KindTruncated {
		return fault.Corrupt("blob: %s", e.Msg)
	}
	return err
}
