package blob

import "bytes"

// choose picks how the tensor is going to be coded (FORMAT.md section 21, steps 1 to 4). Whether a large tensor is equal to
// its reference shows in Scan.
func (e *Encoder) choose(s *Scratch) {
	switch {
	case e.g.Elements == 0:
		e.plan = PlanStored
		return
	case e.small && e.ref != nil && bytes.Equal(e.target, e.ref):
		e.plan = PlanIdentical
		return
	}
	if e.g.Elements > 1 && allEqual(e.target, e.g.DType.ItemSize) {
		e.plan = PlanConstant // a large tensor may still turn out to be equal to its reference
		return
	}
	e.plan = PlanCoded
	s.sample.take(e.target, e.ref, e.g.laneBytes())
	best := &s.plain
	s.plain.plain(&e.g)
	cost := s.plain.judge(&s.sample)
	if e.ref != nil {
		s.reference.reference(&s.sample, &e.g)
		if s.reference.judge(&s.sample) <= cost {
			best = &s.reference
		}
	}
	e.head.spec = best.spec
	if s.sample.whole() {
		best.complete(&s.sample)
		e.tried = best
	} else {
		e.open = best.spec.Map == mapLeading
	}
	s.sample.forget()
}

// allEqual reports whether b repeats its first item bytes.
func allEqual(b []byte, item int) bool { return bytes.Equal(b[item:], b[:len(b)-item]) }
