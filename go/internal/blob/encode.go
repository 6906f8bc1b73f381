package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
)

// Encoder codes one tensor. The steps, in this order:
//
//	Choose               how to code it, from a sample                        (FORMAT.md section 21)
//	Scan        a chunk  hash it, compare it with the reference, count tokens
//	Build                the frequency tables                                 (section 22)
//	AppendBody  a chunk  its coded bytes                                      (section 23)
//	Settle               coded or stored, now that the size is known
//
// after which Plan, NBytes and the parts of the blob are known: head, bodies (each after its length where there is more than
// one chunk), foot. Scan and AppendBody may run for different chunks at the same time; the bytes do not depend on that.
type Encoder struct {
	g           Geometry
	target, ref []byte // ref nil: none
	small       bool   // few chunks: what Scan splits is kept for AppendBody

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
