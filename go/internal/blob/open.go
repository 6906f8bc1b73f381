package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
)

// Record is what the rest of a file says about a blob.
type Record struct {
	Plan           uint8
	NBytes         uint64 // of the blob
	Fingerprint    uint64 // of the value
	NeedsReference bool   // role 0 is listed
	RefFingerprint uint64
}

// Decoder decodes the chunks of one tensor. After Open it is read-only, so chunks may be decoded at the same time.
type Decoder struct {
	g      Geometry
	record Record

	table    *chunkTable // nil: at most one chunk, or PlanConstant
	bodies   []extent    // where the chunk bodies lie in the blob, the lengths before them not included
	constant []byte
	head     *header
	model    *model.Tables
	coder    rans.DecTables
	reduced  bool // coder is built for each chunk, of the rows it uses
}

// extent is a range of bytes of a blob.
type extent struct{ from, to uint64 }

// Source returns a range of bytes of the blob. It is asked only for ranges within the blob, and what it returns stays
// valid while the Decoder is in use.
type Source func(from, to uint64) ([]byte, error)

// reduceUpTo is the number of lane values up to which building the decoding table of every context, as parametric tables
// have them, would cost more than decoding.
const reduceUpTo = 1 << 14

// Open reads everything but the chunks and checks it.
func (d *Decoder) Open(g Geometry, record Record, source Source) error {
	d.g, d.record = g, record
	d.table, d.bodies, d.constant, d.head, d.model = nil, d.bodies[:0], nil, nil, nil
	if record.Plan > PlanCoded {
		return fault.Unsupported("plan %d", record.Plan)
	}
	if g.Elements == 0 && (record.Plan == PlanConstant || record.Plan == PlanCoded) {
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
	coded := d.record.Plan == PlanCoded
	d.table, err = readChunkTable(b, n, coded, coded && d.record.NeedsReference)
	if err != nil {
		return 0, err
	}
	if d.g.fingerprint(d.table.hashes) != d.record.Fingerprint {
		return 0, fault.Corrupt("the chunk hashes do not have the recorded fingerprint")
	}
	if d.table.refHashes != nil && d.g.fingerprint(d.table.refHashes) != d.record.RefFingerprint {
		return 0, fault.Corrupt("the chunk hashes of the reference do not have the recorded fingerprint")
	}
	return at - size, nil
}

// checkEmpty checks the fingerprints of a tensor without elements, for which no chunk does it.
func (d *Decoder) checkEmpty() error {
	empty := d.g.fingerprint(nil)
	if d.record.Fingerprint != empty || d.record.NeedsReference && d.record.RefFingerprint != empty {
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
	if d.record.Fingerprint != d.record.RefFingerprint {
		return fault.Corrupt("an identical tensor with another fingerprint than its reference")
	}
	return nil
}

func (d *Decoder) openCoded(source Source, tableAt uint64) error {
	at, err := d.openHeader(source, tableAt)
	if err != nil {
		return err
	}
	if needs := d.head.spec.Predictor == predictReference; needs != d.record.NeedsReference {
		return fault.Corrupt("predictor %d, but the tail lists a reference: %t", d.head.spec.Predictor, d.record.NeedsReference)
	}
	if err := d.placeBodies(at, tableAt); err != nil {
		return err
	}
	if d.model, err = d.head.readModel(); err != nil {
		return err
	}
	d.reduced = d.model.Parametric && len(d.model.Freq) > 1 && d.g.Chunks() == 1 && d.g.lanes(d.g.NBytes()) <= reduceUpTo
	if !d.reduced {
		d.coder.Build(d.model.Freq, d.model.TableLog)
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
