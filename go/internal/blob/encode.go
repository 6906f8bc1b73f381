package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Encoder codes one tensor. The steps, in this order:
//
//	Choose           how to code it, from a sample                        (FORMAT.md section 21)
//	Scan    a chunk  hash it, compare it with the reference, count tokens
//	Build            the frequency tables                                 (section 22)
//	Body    a chunk  its coded bytes                                      (section 23)
//	Settle           coded or stored, now that the size is known
//
// after which Plan, NBytes and the parts of the blob are known: Head, the bodies (each after its length where there is more
// than one chunk), Foot. Scan and Body may run for different chunks at the same time; the bytes do not depend on that.
type Encoder struct {
	g           Geometry
	target, ref []byte // ref nil: none
	small       bool   // few chunks: what Scan splits is kept for Body

	plan      uint8
	open      bool // token map 1: its range follows from the counts
	head      header
	tried     *candidate // the chosen candidate, where the sample is the tensor
	unchanged []bool     // chunks equal to the reference's
	table     chunkTable
	counters  []*counter // by worker

	model      *model.Tables
	coder      rans.EncTables
	contextMap [256]uint8 // row of coder for each context, 0 for those that do not exist
	rows       [][]uint16 // of coder, where it does not hold all rows
	nbytes     uint64
	memory     []byte // of head and foot
}

// counter counts the chunks that one worker scans.
type counter struct {
	used      bool
	histogram model.Histogram
	leading   leadingCount
}

// NewEncoder prepares the coding of a value with workers that are numbered from 0 below workers. target and ref (nil for
// none) have g.NBytes() bytes and are only read.
func NewEncoder(g Geometry, target, ref []byte, workers int) *Encoder {
	e := &Encoder{counters: make([]*counter, workers)}
	e.start(g, target, ref)
	return e
}

func (e *Encoder) start(g Geometry, target, ref []byte) {
	e.g, e.target, e.ref = g, target, ref
	n := int(g.Chunks())
	e.small = n <= SmallChunks
	e.plan, e.open, e.tried = PlanStored, false, nil
	e.unchanged = sized(e.unchanged, n)
	clear(e.unchanged)
	e.table.hashes = sized(e.table.hashes, n)
	e.table.refHashes = sized(e.table.refHashes, n)
	e.table.lengths = sized(e.table.lengths, n)
}

// forget drops what belongs to the caller.
func (e *Encoder) forget() { e.target, e.ref, e.tried, e.model = nil, nil, nil, nil }

// Chunks is the number of chunks.
func (e *Encoder) Chunks() int { return len(e.unchanged) }

// Choose picks how the tensor is going to be coded.
func (e *Encoder) Choose(s *Scratch) { e.choose(s) }

// Build makes the frequency tables once all chunks are scanned.
func (e *Encoder) Build() {
	switch {
	case e.allUnchanged():
		e.plan = PlanIdentical
	case e.plan == PlanCoded:
		h := e.counts()
		e.model = model.Build(h, paramSpec(&e.head.spec))
		e.head.setTables(e.model)
		e.buildCoder()
	}
	e.releaseCounters()
}

// buildCoder makes the coding tables: of all rows, or for few values of those that occur, since a parametric tensor has a
// row for each context.
func (e *Encoder) buildCoder() {
	rows := e.model.Freq
	n := copy(e.contextMap[:], e.model.ContextMap)
	clear(e.contextMap[n:])
	if e.tried != nil && len(rows) > 1 && e.model.Parametric {
		var occurs [256]bool
		for _, v := range e.tried.ix {
			occurs[v>>8] = true
		}
		e.rows = e.rows[:0]
		for c, row := range e.contextMap[:n] {
			if occurs[c] {
				e.contextMap[c] = uint8(len(e.rows))
				e.rows = append(e.rows, rows[row])
			} else {
				e.contextMap[c] = 0
			}
		}
		rows = e.rows
	}
	e.coder.Build(rows, e.model.TableLog)
}

func (e *Encoder) allUnchanged() bool {
	for _, same := range e.unchanged {
		if !same {
			return false
		}
	}
	return len(e.unchanged) > 0
}

// Coded reports, after Build, whether the chunks are to be coded.
func (e *Encoder) Coded() bool { return e.plan == PlanCoded }

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

func (e *Encoder) multi() bool { return len(e.unchanged) > 1 }

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

func (e *Encoder) needsReference() bool {
	return e.plan == PlanIdentical || e.plan == PlanCoded && e.head.spec.Predictor == predictReference
}

// Plan is the plan of the blob.
func (e *Encoder) Plan() uint8 { return e.plan }

// NBytes is the size of the blob.
func (e *Encoder) NBytes() uint64 { return e.nbytes }

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

// Raw is chunk j of the value itself: its body when the plan is PlanStored.
func (e *Encoder) Raw(j int) []byte {
	from, to := e.g.Chunk(uint64(j))
	return e.target[from:to]
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

// Encode runs all steps for a small tensor and appends its blob, after prefix has appended what precedes it.
func (s *Scratch) Encode(dst []byte, g Geometry, target, ref []byte, prefix func([]byte, Result) []byte) ([]byte, Result) {
	e := &s.encoder
	e.counters = append(e.counters[:0], &s.counter)
	e.start(g, target, ref)
	e.Choose(s)
	for j := range e.Chunks() {
		e.Scan(j, 0, s)
	}
	e.Build()
	var lengths [SmallChunks]uint64
	s.bodies = s.bodies[:0]
	if e.Coded() {
		for j := range e.Chunks() {
			n := len(s.bodies)
			s.bodies = e.AppendBody(s.bodies, j, s)
			lengths[j] = uint64(len(s.bodies) - n)
		}
	}
	e.Settle(lengths[:e.Chunks()])
	r := e.Result()
	dst = prefix(dst, r)
	dst = e.AppendHead(dst)
	switch e.plan {
	case PlanStored:
		dst = append(dst, target...)
	case PlanCoded:
		bodies := s.bodies
		for j := range e.Chunks() {
			dst = e.AppendBodyPrefix(dst, j)
			dst = append(dst, bodies[:lengths[j]]...)
			bodies = bodies[lengths[j]:]
		}
	}
	return e.AppendFoot(dst), r
}
