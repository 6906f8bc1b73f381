package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/sparse"
)

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
	fewChange bool       // few lane values of the sample differ from their prediction
	notKept   []bool     // chunks whose split was not kept
	totals    [][]uint32 // of these, the lane values of each context
	same      []bool     // chunks equal to the reference's
	unchanged []bool     // chunks equal to their prediction
	table     chunkTable
	counters  []*counter // by worker

	model      *model.Tables
	coder      rans.EncTables
	contextMap [256]uint8 // row of coder for each context, 0 for those that do not exist
	contexts   int        // 32 or 256: as many as there are at most
	coderRows  [][]uint16 // of coder, where it does not hold all rows
	mayOmit    bool       // sparse chunks are allowed
	sparse     sparse.Model
	nbytes     uint64
	memory     []byte // of the head
}

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

func (e *Encoder) buildTables(h *model.Histogram) {
	if e.head.classes == nil || !e.buildClassed(h) {
		e.model = model.Build(h, e.head.paramSpec())
	}
	e.head.setTables(e.model)
	e.memory = e.head.append(e.memory[:0])
	if !e.small && e.storedIsSmaller(h) {
		e.become(PlanStored)
		return
	}
	e.buildCoder()
	changed := h.Total() - h.TokenCount(0)
	if e.mayOmit = e.head.allowsSparse(&e.g) && changed <= h.Total()/sparseTensor; e.mayOmit {
		e.sparse.Init(e.model)
	}
}

// buildClassed makes tables with the classes if they pay; otherwise h counts without classes from then on.
func (e *Encoder) buildClassed(h *model.Histogram) bool {
	c := e.head.classes
	e.model = model.BuildClassed(h, e.head.paramSpec(), c.list)
	if e.model != nil && checkList(c.entries, len(e.model.WriteSide())) == nil {
		return true
	}
	e.head.classes, e.classless = nil, true
	return false
}

// buildCoder makes the coding tables: of all rows, or for few values of those that occur, since a parametric tensor has a
// row for each context.
func (e *Encoder) buildCoder() {
	rows := e.model.Freq
	n := copy(e.contextMap[:], e.model.ContextMap)
	clear(e.contextMap[n:])
	if e.contexts = exponentContexts; n > exponentContexts {
		e.contexts = len(e.contextMap)
	}
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
