package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// largeSave is a large tensor on its way through the steps of blob.Encoder. Its chunks are written as they are coded.
type largeSave struct {
	s       *saver
	tensor  int
	encoder *blob.Encoder

	planned phase
	scanned phase

	lengths []uint64    // of the bodies
	hasher  blob.Hasher // of the blob as it is written
}

func newLargeSave(s *saver, tensor int) *largeSave {
	e := blob.NewEncoder(s.input(tensor), s.opt.threads())
	n := e.Chunks()
	l := &largeSave{s: s, tensor: tensor, encoder: e, lengths: make([]uint64, n)}
	l.planned.start(1)
	l.scanned.start(n)
	return l
}

func (l *largeSave) chunks() int { return len(l.lengths) }

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

// codeStep codes and writes chunk j, the first with what comes before it and the last with what comes after.
func (l *largeSave) codeStep(j int) schedule.Step {
	var body []byte
	return schedule.Step{
		Run: func(worker int) error {
			if l.scanned.wait() {
				if l.encoder.Coded() {
					body = l.encoder.AppendBody(l.s.memory.get(), j, l.s.scratch(worker))
				}
				l.s.opt.progress(uint64(len(l.encoder.Raw(j))))
			}
			return nil
		},
		Emit: func() error {
			if j == 0 {
				if err := l.begin(); err != nil {
					return err
				}
			}
			if err := l.body(j, body); err != nil {
				return err
			}
			if j == l.chunks()-1 {
				return l.end()
			}
			return nil
		},
	}
}

// tail is the tensor's part of the tail.
func (l *largeSave) tail() *TailEntry { return &l.s.d.Tensors[l.tensor].Tail }

// begin writes what comes before the chunks. The length of a blob whose chunks are to be coded is not known yet.
func (l *largeSave) begin() error {
	l.hasher = blob.NewHasher()
	t := l.tail()
	if !l.encoder.Coded() {
		l.encoder.Settle(nil)
	}
	t.Plan, t.NBytes = l.encoder.Plan(), l.encoder.NBytes()
	t.Delimited = l.encoder.Coded()
	if err := l.s.out.write(t.appendPrefix(nil)); err != nil {
		return err
	}
	t.Offset = l.s.out.at
	return l.write(l.encoder.AppendHead(nil))
}

// body writes chunk j.
func (l *largeSave) body(j int, body []byte) error {
	switch {
	case l.encoder.Plan() == blob.PlanStored:
		return l.write(l.encoder.Raw(j))
	case !l.encoder.Coded():
		return nil
	}
	defer l.s.memory.put(body)
	l.lengths[j] = uint64(len(body))
	if err := l.write(l.encoder.AppendBodyPrefix(nil, len(body))); err != nil {
		return err
	}
	return l.write(body)
}

// end writes what comes after the chunks.
func (l *largeSave) end() error {
	if l.encoder.Coded() {
		l.encoder.Settle(l.lengths)
	}
	if err := l.write(l.encoder.AppendFoot(nil)); err != nil {
		return err
	}
	r := l.encoder.Result()
	l.s.results[l.tensor] = r
	t := l.tail()
	offset := t.Offset
	*t = tailEntry(r, checksumOfHash(r.NBytes, l.hasher.Sum64()))
	t.Offset, t.Delimited = offset, l.encoder.Coded()
	l.hasher.Release()
	return nil
}

// write writes a part of the blob.
func (l *largeSave) write(b []byte) error {
	l.hasher.Write(b)
	return l.s.out.write(b)
}
