package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/sparse"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Input is a tensor to code, and what it may be coded against. Memory is only read.
type Input struct {
	Geometry  Geometry
	Target    []byte     // the value
	Ref       []byte     // its reference, nil for none
	Proposals []Proposal // predictions by programs, in order of preference
	Beside    *Slot      // whose exponents may give contexts, nil for none
	Fast      bool       // effort 1
}

// Encoder codes one tensor. The steps, in this order:
//
//	Choose           how to code it, from a sample                        (FORMAT.md sections 21 and 32)
//	Scan    a chunk  hash it, compare it with its prediction, count tokens
//	Build            the frequency tables                                 (section 22)
//	Body    a chunk  its coded bytes                                      (section 23)
//	Settle           the lengths are known
//
// after which NBytes and AppendFoot are known; AppendHead is from Build on, unless the tensor is small: then Settle may
// still find that it is stored. The bodies stand after the head, each after its length where there is more than one chunk.
// Scan and Body may run for different chunks at the same time; the bytes do not depend on that.
type Encoder struct {
	in     Input
	g      Geometry
	target []byte
	small  bool // few chunks: what Scan splits is kept for Body

	plan      uint8
	rows      *exactRows // plan 4
	drop      int        // plan 5
	lane      dtype.Info // of the coded lane values
	slots     []Slot     // tensors that the blob needs
	dtypes    []dtype.Info
	own       int  // slot of the own reference
	open      bool // token map 1: its range follows from the counts
	classless bool // classes were counted, but are not used
	head      header
	tried     *candidate // the chosen candidate, where the sample is the tensor
	same      []bool     // chunks equal to the reference's
	unchanged []bool     // chunks equal to their prediction
	table     chunkTable
	counters  []*counter // by worker

	model      *model.Tables
	coder      rans.EncTables
	contextMap [256]uint8 // row of coder for each context, 0 for those that do not exist
	coderRows  [][]uint16 // of coder, where it does not hold all rows
	mayOmit    bool       // sparse chunks are allowed
	sparse     sparse.Model
	nbytes     uint64
	memory     []byte // of the head
}

// counter counts the chunks that one worker scans.
type counter struct {
	used      bool
	histogram model.Histogram
	leading   leadingCount
}

// NewEncoder prepares the coding of a value with workers that are numbered from 0 below workers.
func NewEncoder(in Input, workers int) *Encoder {
	e := &Encoder{counters: make([]*counter, workers)}
	e.start(in)
	return e
}

func (e *Encoder) start(in Input) {
	e.in, e.g, e.target = in, in.Geometry, in.Target
	n := int(e.g.Chunks())
	e.small = n <= SmallChunks
	e.plan, e.rows, e.drop, e.open, e.classless, e.tried = PlanStored, nil, 0, false, false, nil
	e.slots, e.dtypes = e.slots[:0], nil
	e.head = header{}
	e.same, e.unchanged = sized(e.same, n), sized(e.unchanged, n)
	clear(e.same)
	clear(e.unchanged)
	e.table.hashes = sized(e.table.hashes, n)
	e.table.lengths = sized(e.table.lengths, n)
}

// forget drops what belongs to the caller.
func (e *Encoder) forget() {
	clear(e.slots[:cap(e.slots)])
	e.in, e.target, e.tried, e.model, e.head, e.rows = Input{}, nil, nil, nil, header{}, nil
}

// Chunks is the number of chunks.
func (e *Encoder) Chunks() int { return len(e.same) }

// Choose picks how the tensor is going to be coded.
func (e *Encoder) Choose(s *Scratch) {
	e.choose(s)
	e.table.slotHashes = e.table.slotHashes[:0]
	for i := range e.slots {
		var hashes []uint64
		if hashed(e.slots[i].Role) {
			hashes = make([]uint64, e.Chunks())
		}
		e.table.slotHashes = append(e.table.slotHashes, hashes)
	}
}

// Build makes the frequency tables once all chunks are scanned.
func (e *Encoder) Build() {
	switch {
	case allTrue(e.same):
		e.become(PlanIdentical)
	case IsCoded(e.plan):
		e.buildTables(e.counts())
	}
	e.releaseCounters()
}

// become turns to a plan without a header.
func (e *Encoder) become(plan uint8) {
	e.plan = plan
	e.slots, e.table.slotHashes = e.slots[:0], e.table.slotHashes[:0]
	if plan == PlanIdentical {
		e.slots = append(e.slots, e.ownSlot())
		e.table.slotHashes = append(e.table.slotHashes, nil)
	}
}

func (e *Encoder) buildTables(h *model.Histogram) {
	if c := e.head.classes; c != nil {
		var classed bool
		e.model, classed = model.BuildClassed(h, e.head.paramSpec(), c.list, listBits(c.list, c.n))
		if !classed {
			e.head.classes, e.classless = nil, true
		}
	} else {
		e.model = model.Build(h, e.head.paramSpec())
	}
	e.head.setTables(e.model)
	e.memory = e.head.append(e.memory[:0])
	if !e.small && e.storedIsSmaller(h) {
		e.become(PlanStored)
		return
	}
	e.buildCoder()
	if e.mayOmit = e.head.allowsSparse(&e.g); e.mayOmit {
		e.sparse.Init(e.model)
	}
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
		e.coderRows = e.coderRows[:0]
		for c, row := range e.contextMap[:n] {
			if occurs[c] {
				e.contextMap[c] = uint8(len(e.coderRows))
				e.coderRows = append(e.coderRows, rows[row])
			} else {
				e.contextMap[c] = 0
			}
		}
		if len(e.coderRows) > 0 {
			rows = e.coderRows
		}
	}
	e.coder.Build(rows, e.model.TableLog)
}

func allTrue(list []bool) bool {
	for _, v := range list {
		if !v {
			return false
		}
	}
	return len(list) > 0
}

// Coded reports, after Build, whether the chunks are to be coded.
func (e *Encoder) Coded() bool { return IsCoded(e.plan) }

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

func (e *Encoder) multi() bool { return e.Chunks() > 1 }

func (e *Encoder) storedTable() *chunkTable { return &chunkTable{hashes: e.table.hashes} }

func (e *Encoder) codedTable() *chunkTable { return &e.table }

// sizeIf is the size of the table where there is one.
func (t *chunkTable) sizeIf(there bool) uint64 {
	if !there {
		return 0
	}
	return t.size()
}

// Plan is the plan of the blob.
func (e *Encoder) Plan() uint8 { return e.plan }

// NBytes is the size of the blob.
func (e *Encoder) NBytes() uint64 { return e.nbytes }

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

// Encode runs all steps for a small tensor and appends its blob, after prefix has appended what precedes it.
func (s *Scratch) Encode(dst []byte, in Input, prefix func([]byte, Result) []byte) ([]byte, Result) {
	e := &s.encoder
	e.counters = append(e.counters[:0], &s.counter)
	e.start(in)
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
	switch {
	case e.plan == PlanStored:
		dst = append(dst, in.Target...)
	case IsCoded(e.plan):
		bodies := s.bodies
		for j := range e.Chunks() {
			dst = e.AppendBodyPrefix(dst, int(lengths[j]))
			dst = append(dst, bodies[:lengths[j]]...)
			bodies = bodies[lengths[j]:]
		}
	}
	return e.AppendFoot(dst), r
}
