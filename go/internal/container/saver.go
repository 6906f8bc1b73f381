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

// saver cuts the work of Save into steps. Small tensors are coded in batches, a large one in three kinds of steps: plan it,
// scan its chunks, code and write them. Those of neighbours are interleaved,
//
//	plan 3 | scan 2 | code 1 | plan 4 | scan 3 | code 2 | ...
//
// so that hardly a worker waits for the end of a phase.
type saver struct {
	d       *Directory
	data    []Data
	related []related
	out     *output
	opt     Options
	results []blob.Result

	workers []*blob.Scratch
	memory  buffers

	place int      // in the order of blobs: the next tensor to put into a unit
	ahead []*unit  // units that have begun: being coded, scanned, planned
	parts sections // steps to hand out
}

// unit is a batch of small tensors (large is nil) or a large tensor.
type unit struct {
	from, to int // places in the order of blobs
	large    *largeSave
	scanned  bool
}

func newSaver(d *Directory, data []Data, related []related, out *output, opt Options) *saver {
	return &saver{
		d: d, data: data, related: related, out: out, opt: opt,
		results: make([]blob.Result, len(data)),
		workers: make([]*blob.Scratch, opt.threads()),
	}
}

// input is what the codec is given of tensor i.
func (s *saver) input(i int) blob.Input {
	in := blob.Input{
		Geometry: s.d.Tensors[i].Geometry, Target: s.data[i].Target, Ref: s.data[i].Ref, Fast: s.d.Effort == effortFast,
	}
	if s.related != nil {
		in.Proposals, in.Beside = s.related[i].proposals, s.related[i].beside
	}
	return in
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
	for len(s.ahead) < depth && s.place < len(s.data) {
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
	}
	return true
}

// cut takes the next unit off the tensors.
func (s *saver) cut() *unit {
	u := &unit{from: s.place}
	nbytes := uint64(0)
	for s.place < len(s.data) {
		tensor := s.d.at(s.place)
		g := &s.d.Tensors[tensor].Geometry
		if g.Chunks() > blob.SmallChunks {
			if s.place == u.from {
				u.large = newLargeSave(s, tensor)
				s.place++
			}
			break
		}
		s.place++
		nbytes += g.NBytes()
		if nbytes >= batchBytes || s.place-u.from >= batchCount {
			break
		}
	}
	u.to = s.place
	return u
}
