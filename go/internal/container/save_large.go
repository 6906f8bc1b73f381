package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// largeSave is a large tensor on its way through the steps of blob.Encoder. The length of a blob stands before it in the
// file, so the coded chunks are held until the last is done; those that do not fit the budget are coded again when written.
type largeSave struct {
	s       *saver
	tensor  int
	encoder *blob.Encoder

	planned phase
	scanned phase
	coded   phase

	bodies  [][]byte // held
	lengths []uint64
	hasher  blob.Hasher // of the blob as it is written
}

func newLargeSave(s *saver, tensor int) *largeSave {
	e := blob.NewEncoder(s.d.Tensors[tensor].Geometry, s.data[tensor].Target, s.data[tensor].Ref, s.opt.threads())
	n := e.Chunks()
	l := &largeSave{s: s, tensor: tensor, encoder: e, bodies: make([][]byte, n), lengths: make([]uint64, n)}
	l.planned.start(1)
	l.scanned.start(n)
	l.coded.start(n)
	return l
}

func (l *largeSave) chunks() int { return len(l.bodies) }

func (l *largeSave) planStep(int) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		l.planned.do(true, func() { l.encoder.Choose(l.s.scratch(worker)) }, nil)
		return nil
	}}
}

func (l *largeSave) scanStep(j int) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		l.scanned.do(l.planned.wait(), func() { l.encoder.Scan(j, worker, l.s.scratch(worker)) }, l.encoder.Build)
		return nil
	}}
}

func (l *largeSave) codeStep(j int) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		l.coded.do(l.scanned.wait(), func() { l.code(j, worker) }, l.settle)
		return nil
	}}
}

// code codes chunk j, and holds the result if the budget allows.
func (l *largeSave) code(j, worker int) {
	l.s.opt.progress(uint64(len(l.encoder.Raw(j))))
	if !l.encoder.Coded() {
		return
	}
	body := l.encoder.AppendBody(l.s.memory.get(), j, l.s.scratch(worker))
	l.lengths[j] = uint64(len(body))
	if l.s.memory.hold(cap(body)) {
		l.bodies[j] = body
	} else {
		l.s.memory.put(body)
	}
}

func (l *largeSave) settle() {
	if l.encoder.Coded() {
		l.encoder.Settle(l.lengths)
	} else {
		l.encoder.Settle(nil)
	}
	l.hasher = blob.NewHasher()
}

// writeStep writes chunk j, the first with what comes before it and the last with what comes after.
func (l *largeSave) writeStep(j int) schedule.Step {
	var again []byte
	return schedule.Step{
		Run: func(worker int) error {
			if l.coded.wait() && l.encoder.Plan() == blob.PlanCoded && l.bodies[j] == nil {
				again = l.encoder.AppendBody(l.s.memory.get(), j, l.s.scratch(worker))
			}
			return nil
		},
		Emit: func() error {
			if j == 0 {
				if err := l.begin(); err != nil {
					return err
				}
			}
			if err := l.body(j, again); err != nil {
				return err
			}
			if j == l.chunks()-1 {
				return l.end()
			}
			return nil
		},
	}
}

// begin writes what comes before the chunks.
func (l *largeSave) begin() error {
	r := l.encoder.Result()
	l.s.results[l.tensor] = r
	t := &l.s.d.Tensors[l.tensor].Tail
	*t = tailEntry(r, 0)
	if err := l.s.out.write(appendPrefix(nil, r)); err != nil {
		return err
	}
	t.Offset = l.s.out.at
	return l.write(l.encoder.AppendHead(nil))
}

// body writes chunk j.
func (l *largeSave) body(j int, again []byte) error {
	if held := l.bodies[j]; held != nil {
		defer l.s.memory.put(held)
		defer l.s.memory.drop(cap(held))
		l.bodies[j] = nil
		again = held
	} else if again != nil {
		defer l.s.memory.put(again)
	}
	switch l.encoder.Plan() {
	case blob.PlanStored:
		return l.write(l.encoder.Raw(j))
	case blob.PlanCoded:
		if err := l.write(l.encoder.AppendBodyPrefix(nil, j)); err != nil {
			return err
		}
		return l.write(again)
	}
	return nil
}

// end writes what comes after the chunks.
func (l *largeSave) end() error {
	if err := l.write(l.encoder.AppendFoot(nil)); err != nil {
		return err
	}
	t := &l.s.d.Tensors[l.tensor].Tail
	t.Checksum = checksumOfHash(t.NBytes, l.hasher.Sum64())
	l.hasher.Release()
	return nil
}

// write writes a part of the blob.
func (l *largeSave) write(b []byte) error {
	l.hasher.Write(b)
	return l.s.out.write(b)
}
