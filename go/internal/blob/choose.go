package blob

import (
	"bytes"
	"slices"
)

// choose picks how the tensor is going to be coded (FORMAT.md sections 21 and 32). Whether a large tensor is equal to its
// reference shows in Scan.
func (e *Encoder) choose(s *Scratch) {
	in := &e.in
	switch {
	case e.g.Elements == 0:
		e.plan = PlanStored
		return
	case e.small && in.Ref != nil && bytes.Equal(e.target, in.Ref):
		e.plan = PlanIdentical
		return
	}
	if e.g.Elements > 1 && allEqual(e.target, e.g.DType.ItemSize) {
		e.plan = PlanConstant // a large tensor may still turn out to be equal to its reference
		return
	}
	e.plan = PlanCoded
	e.lane = e.g.DType
	if !in.Fast && !in.isKnown() {
		e.leaveOut(s)
	}
	best, cost := e.best(s)
	if !in.Fast && e.drop == 0 && cost > 0 {
		best = e.tryRows(best, cost, s)
	}
	e.adopt(best)
	if !in.Fast {
		e.classify(s)
	}
	e.fewChange = e.head.classes == nil && e.head.beside == nil && e.head.mayBeSparse(&e.g) &&
		best.histogram.Total()-best.histogram.TokenCount(0) <= best.histogram.Total()/sparseTensor
	if s.sample.whole() && e.Chunks() == 1 && e.head.classes == nil {
		best.complete()
		e.tried = best
	} else {
		e.open = e.head.spec.Map == mapLeading
	}
	s.sample.forget()
}

// isKnown reports whether a proposal is known to be right.
func (in *Input) isKnown() bool {
	return slices.ContainsFunc(in.Proposals, func(p Proposal) bool { return p.Exact })
}

// allEqual reports whether b repeats its first item bytes.
func allEqual(b []byte, item int) bool { return bytes.Equal(b[item:], b[:len(b)-item]) }

// leaveOut decides whether low bits are left out: as many as are 0 in every lane value (section 37).
func (e *Encoder) leaveOut(s *Scratch) {
	d := &e.g.DType
	if !d.Float || d.Width < 16 {
		return
	}
	s.sample.take(&e.g, nil)
	drop := zeroBits(s.sample.collect(&s.sample.targetMemory, e.target, d.Width/8), d.Width)
	if drop > 0 {
		drop = zeroBits(e.target, d.Width)
	}
	drop = min(drop, maxDrop(d))
	if lane, ok := narrowed(d, drop); ok {
		e.drop, e.lane = drop, lane
		e.plan = PlanNarrow
	}
}

// tryRows leaves rows out that a program predicts exactly where that is estimated smaller (section 34), and returns the
// candidate for what is coded.
func (e *Encoder) tryRows(best *candidate, cost uint64, s *Scratch) *candidate {
	rows := e.findRows()
	switch {
	case rows == nil:
		return best
	case rows.rest == 0:
		e.in.Proposals = []Proposal{{Program: rows.program, Slots: []Slot{e.ownSlot()}, Exact: true}}
		best, _ = e.best(s)
		return best
	}
	e.plan, e.rows = PlanRows, rows
	best, rest := e.best(s)
	if flags := uint64(len(rows.exact)) << 16; rest+flags < cost {
		return best
	}
	e.plan, e.rows = PlanCoded, nil
	best, _ = e.best(s)
	return best
}

// best judges the candidates of section 32 on the sample and returns the one with the smallest estimate, the first on ties.
// The estimate of a prediction that is known to be exact is 0.
func (e *Encoder) best(s *Scratch) (*candidate, uint64) {
	in := &e.in
	e.draw(s)
	sample := &s.sample
	best, next := &s.candidates[0], &s.candidates[1]
	least := ^uint64(0)
	try := func() uint64 {
		cost := next.judge(sample)
		if cost < least {
			least = cost
			best, next = next, best
		}
		return cost
	}
	if e.rows == nil && e.drop == 0 {
		for i := range in.Proposals {
			next.program(sample, &e.g.DType, &in.Proposals[i])
			if in.Proposals[i].Exact {
				next.judge(sample)
				return next, 0
			}
			try()
		}
	}
	if in.Ref != nil {
		next.reference(sample, &e.lane, sample.ref)
		try()
	}
	next.plain(sample, &e.lane)
	cost := try()
	if other := e.besideSlot(); other != nil && cost-cost/8 <= least {
		next.plainBeside(sample, &e.lane, other)
		try()
	}
	return best, least
}

// besideSlot is the tensor whose exponents may give contexts to candidate N: one of the same file or the reference.
func (e *Encoder) besideSlot() *Slot {
	d := &e.g.DType
	switch {
	case e.in.Fast || e.drop > 0 || !d.Float || d.Width < 16 || d.Components != 1:
		return nil
	case e.in.Beside != nil:
		return e.in.Beside
	case e.in.Ref == nil:
		return nil
	}
	own := e.ownSlot()
	return &own
}

// draw draws the sample of what is coded.
func (e *Encoder) draw(s *Scratch) {
	sample := &s.sample
	size := e.g.laneBytes()
	sample.take(&e.g, e.rows)
	sample.target = sample.collect(&sample.targetMemory, e.target, size)
	sample.ref = nil
	if e.in.Ref != nil {
		sample.ref = sample.collect(&sample.refMemory, e.in.Ref, size)
	}
	if e.drop == 0 {
		return
	}
	sample.target = e.reduced(&s.looker.target, sample.target, sample.lanes)
	if sample.ref != nil {
		sample.ref = e.reduced(&s.looker.ref, sample.ref, sample.lanes)
	}
}

// reduced leaves the low bits of lane values out.
func (e *Encoder) reduced(memory *[]byte, b []byte, lanes int) []byte {
	*memory = sized(*memory, lanes*e.lane.Width/8)
	narrow(*memory, b, e.g.DType.Width, e.lane.Width, e.drop)
	return *memory
}

// adopt makes a candidate the way in which the tensor is coded.
func (e *Encoder) adopt(c *candidate) {
	e.head = c.head
	e.head.rows, e.head.drop = e.rows, e.drop
	e.slots = e.slots[:0]
	if e.rows != nil {
		e.rows.program.Slots[0] = e.slot(e.ownSlot())
	}
	if e.head.program != nil {
		p := *e.head.program
		for i := range p.NumSlots() {
			p.Slots[i] = e.slot(c.slots[p.Slots[i]])
		}
		e.head.program = &p
	}
	if e.head.beside != nil {
		b := *e.head.beside
		b.slot = e.slot(c.slots[b.slot])
		e.head.beside = &b
	}
	if e.head.program == nil && e.head.spec.Predictor == predictReference {
		e.own = int(e.slot(e.ownSlot()))
	}
	e.dtypes = dtypesOf(e.slots)
}

// ownSlot is the tensor's own reference.
func (e *Encoder) ownSlot() Slot {
	return Slot{Role: RoleReference, DType: e.g.DType, Data: e.in.Ref}
}

// slot returns the place of a tensor in the list of slots, where it is added unless it is there.
func (e *Encoder) slot(x Slot) uint8 {
	for i := range e.slots {
		if e.slots[i].Role == x.Role && (x.Role == RoleReference || e.slots[i].Tensor == x.Tensor) {
			return uint8(i)
		}
	}
	e.slots = append(e.slots, x)
	return uint8(len(e.slots) - 1)
}
