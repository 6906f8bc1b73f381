package container

import (
	"io"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// loader cuts the work of Load into steps, in the order of the file.
type loader struct {
	r        io.ReaderAt
	x        *Index
	opt      LoadOptions
	members  []*member   // by place in the file
	byTensor [][]*member // the same by tensor
	families []*family   // by place in the file
	todo     []*family   // those of which something is to be decoded

	checkOnly bool // check blobs and references, decode nothing
	workers   []*blob.Scratch
	memory    buffers

	family int // the next one to put into a unit
	ahead  []*unitLoad
	parts  sections
}

func (l *loader) release() {
	for _, w := range l.workers {
		if w != nil {
			w.Release()
		}
	}
}

func (l *loader) scratch(worker int) *blob.Scratch {
	if l.workers[worker] == nil {
		l.workers[worker] = blob.GetScratch()
	}
	return l.workers[worker]
}

// run hands the families to the workers.
func (l *loader) run() error {
	if err := l.firstError(); err != nil {
		return err
	}
	l.todo, l.family = l.todo[:0], 0
	for _, f := range l.families {
		if f.isAlive() {
			l.todo = append(l.todo, f)
		}
	}
	if err := schedule.Run(l.schedule(), l.next); err != nil {
		return err
	}
	return l.firstError()
}

// isAlive reports whether there is something to decode, in a member without an error.
func (f *family) isAlive() bool {
	for _, m := range f.members {
		if !m.idle() && m.error() == nil {
			return true
		}
	}
	return false
}

// firstError is the error of the first member that has one, unless damaged tensors are only noted.
func (l *loader) firstError() error {
	if l.opt.Salvage {
		return nil
	}
	for _, m := range l.members {
		if err := m.error(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) schedule() schedule.Options {
	return schedule.Options{Threads: l.opt.threads(), Window: l.opt.window(), Cancel: l.opt.Cancel}
}

// next hands out the steps.
func (l *loader) next() (schedule.Step, bool) {
	for {
		if step, ok := l.parts.next(); ok {
			return step, true
		}
		if !l.round() {
			return schedule.Step{}, false
		}
	}
}

// unitLoad is a batch of small tensors (large is nil) or a family that is decoded chunk by chunk.
type unitLoad struct {
	families []*family
	large    *familyLoad
}

// round adds the steps of the first unit ahead; the next one, if it is large, is opened before that.
func (l *loader) round() bool {
	const depth = 2
	for len(l.ahead) < depth && l.family < len(l.todo) {
		u := l.cut()
		l.ahead = append(l.ahead, u)
		if u.large != nil {
			l.parts.add(1, u.large.openStep)
		}
	}
	if len(l.ahead) == 0 {
		return false
	}
	u := l.ahead[0]
	l.ahead = append(l.ahead[:0], l.ahead[1:]...)
	if u.large == nil {
		l.parts.add(1, func(int) schedule.Step { return l.batchStep(u.families) })
	} else {
		l.parts.add(u.large.steps(), u.large.chunkStep)
	}
	return true
}

// cut takes the next unit off the families: one of several tensors or of a large one, or small ones whose blobs lie close to
// each other.
func (l *loader) cut() *unitLoad {
	start := l.family
	nbytes, at := uint64(0), uint64(0)
	for l.family < len(l.todo) {
		f := l.todo[l.family]
		e := f.members[0].entry
		if len(f.members) > 1 || e.isLarge() {
			if l.family == start {
				l.family++
				return &unitLoad{large: newFamilyLoad(l, f)}
			}
			break
		}
		if l.family > start && e.Tail.Offset > at+readGap {
			break
		}
		l.family++
		nbytes += e.Geometry.NBytes() + e.Tail.NBytes
		at = e.Tail.Offset + e.Tail.NBytes
		if nbytes >= batchBytes || l.family-start >= batchCount {
			break
		}
	}
	return &unitLoad{families: l.todo[start:l.family]}
}

// readGap is how many bytes between two blobs are read rather than skipped.
const readGap = 1 << 14

// isLarge reports whether the tensor is read chunk by chunk.
func (e *Entry) isLarge() bool { return e.Geometry.Chunks() > blob.SmallChunks }
