package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// Small tensors share a step until it has this many bytes or tensors.
const (
	batchBytes = 1 << 19
	batchCount = 64
)

// saver cuts the work of Save into steps. Small tensors are coded in batches, a large one in four kinds of steps: plan it,
// scan its chunks, code them, write them. Those of neighbours are interleaved,
//
//	plan 3 | scan 2 | code 1, write 1 | plan 4 | scan 3 | code 2, write 2 | ...
//
// so that hardly a worker waits for the end of a phase.
type saver struct {
	d       *Directory
	data    []Data
	out     *output
	opt     Options
	results []blob.Result

	workers []*blob.Scratch
	memory  buffers

	tensor int      // the next one to put into a unit
	ahead  []*unit  // units that have begun: being coded, scanned, planned
	parts  sections // steps to hand out
}

// unit is a batch of small tensors (large is nil) or a large tensor.
type unit struct {
	from, to int // tensors
	large    *largeSave
	scanned  bool
}

func newSaver(d *Directory, data []Data, out *output, opt Options, hold int) *saver {
	return &saver{
		d: d, data: data, out: out, opt: opt,
		results: make([]blob.Result, len(data)),
		workers: make([]*blob.Scratch, opt.threads()),
		memory:  buffers{budget: hold},
	}
}

func (s *saver) release() {
	for _, w := range s.workers {
		if w != nil {
			w.Release()
		}
	}
}

func (s *saver) schedule() schedule.Options {
	return schedule.Options{Threads: s.opt.threads(), Window: s.opt.window(), Cancel: s.opt.Cancel}
}

// scratch returns the memory of a worker.
func (s *saver) scratch(worker int) *blob.Scratch {
	if s.workers[worker] == nil {
		s.workers[worker] = blob.GetScratch()
	}
	return s.workers[worker]
}

// next hands out the steps.
func (s *saver) next() (schedule.Step, bool) {
	for {
		if step, ok := s.parts.next(); ok {
			return step, true
		}
		if !s.round() {
			return schedule.Step{}, false
		}
	}
}

// round adds the steps that let the first unit ahead be written, and those of its neighbours that belong between them.
func (s *saver) round() bool {
	const depth = 3
	for len(s.ahead) < depth && s.tensor < len(s.data) {
		u := s.cut()
		s.ahead = append(s.ahead, u)
		if u.large != nil {
			s.parts.add(1, u.large.planStep)
		}
	}
	if len(s.ahead) == 0 {
		return false
	}
	for _, u := range s.ahead[:min(2, len(s.ahead))] {
		if u.large != nil && !u.scanned {
			u.scanned = true
			s.parts.add(u.large.chunks(), u.large.scanStep)
		}
	}
	u := s.ahead[0]
	s.ahead = append(s.ahead[:0], s.ahead[1:]...)
	if u.large == nil {
		s.parts.add(1, func(int) schedule.Step { return s.batchStep(u.from, u.to) })
	} else {
		s.parts.add(u.large.chunks(), u.large.codeStep)
		s.parts.add(u.large.chunks(), u.large.writeStep)
	}
	return true
}

// cut takes the next unit off the tensors.
func (s *saver) cut() *unit {
	u := &unit{from: s.tensor}
	nbytes := uint64(0)
	for s.tensor < len(s.data) {
		g := &s.d.Tensors[s.tensor].Geometry
		if g.Chunks() > blob.SmallChunks {
			if s.tensor == u.from {
				u.large = newLargeSave(s, s.tensor)
				s.tensor++
			}
			break
		}
		s.tensor++
		nbytes += g.NBytes()
		if nbytes >= batchBytes || s.tensor-u.from >= batchCount {
			break
		}
	}
	u.to = s.tensor
	return u
}
