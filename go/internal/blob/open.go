package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/wire"
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

// headGuess is how much of a blob is read at first to find the header of a coded tensor.
const headGuess = 1 << 12

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

// openHeader reads the header, which ends before end, and returns where it ends.
func (d *Decoder) openHeader(source Source, end uint64) (at uint64, err error) {
	for guess := uint64(headGuess); ; guess *= 16 {
		n := min(guess, end)
		b, err := source(0, n)
		if err != nil {
			return 0, err
		}
		r := wire.NewReader(b)
		d.head, err = readHeader(&r, &d.g.DType)
		if r.Ended() && n < end {
			continue
		}
		if err != nil {
			return 0, inBlob(err)
		}
		return uint64(r.Offset()), nil
	}
}

// inBlob makes sure that a field which does not fit its blob counts as corrupt: the blob itself is complete.
func inBlob(err error) error {
	if e := fault.From(err); e.Kind == fault.KindTruncated {
		return fault.Corrupt("blob: %s", e.Msg)
	}
	return err
}

// placeBodies finds the chunk bodies, which fill the blob from byte at to end.
func (d *Decoder) placeBodies(at, end uint64) error {
	n := d.g.Chunks()
	if d.table == nil {
		if n == 1 {
			d.bodies = append(d.bodies, extent{at, end})
			at = end
		}
	} else {
		for _, length := range d.table.lengths {
			at += uint64(wire.VarintLen(length))
			if at > end || length > end-at {
				return fault.Corrupt("a chunk leaves its blob")
			}
			d.bodies = append(d.bodies, extent{at, at + length})
			at += length
		}
	}
	if at != end {
		return fault.Corrupt("%d bytes after the last chunk", end-at)
	}
	for j, x := range d.bodies {
		if size := x.to - x.from; size < 1 || size > d.maxBody(uint64(j)) {
			return fault.Corrupt("a chunk body of %d bytes", size)
		}
	}
	return nil
}

// maxBody bounds the body of chunk j: at most one word, the raw plane and the tail for each lane value.
func (d *Decoder) maxBody(j uint64) uint64 {
	from, to := d.g.Chunk(j)
	m := uint64(d.g.lanes(to - from))
	return bodyOverhead + 2*m + (to - from)
}

// MaxNBytes bounds the blob of a tensor.
func (g *Geometry) MaxNBytes() uint64 {
	const perChunk = 2*wire.MaxVarintLen + 2*8 + bodyOverhead
	const head = 64 + maxSide
	m := g.NBytes() / uint64(g.laneBytes())
	return head + g.NBytes() + 2*m + g.Chunks()*perChunk + tableLengthSize
}

// bodyOverhead bounds what a body holds besides words, raw plane and tail.
const bodyOverhead = 1 + wire.MaxVarintLen + stateBytes*rans.MaxLanes + 1

// Extent is where chunk j lies in the blob, the length before a body included; empty if the blob holds nothing of it.
func (d *Decoder) Extent(j uint64) (from, to uint64) {
	if uint64(len(d.bodies)) <= j {
		return 0, 0
	}
	x := d.bodies[j]
	if d.record.Plan == PlanCoded && d.table != nil {
		x.from -= uint64(wire.VarintLen(d.table.lengths[j]))
	}
	return x.from, x.to
}

// Geometry is that of the value.
func (d *Decoder) Geometry() *Geometry { return &d.g }

// NeedsReference reports whether chunks can only be decoded with the reference.
func (d *Decoder) NeedsReference() bool { return d.record.NeedsReference }

// Stored reports whether the coded bytes of a chunk are its value.
func (d *Decoder) Stored() bool { return d.record.Plan == PlanStored }
