package container

import (
	"io"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// loader cuts the work of Load into steps, in the order of the file.
type loader struct {
	r    io.ReaderAt
	x    *Index
	opt  LoadOptions
	jobs []*job // by place in the file
	todo []*job // those without an error

	checkOnly bool // check blobs and references, decode nothing
	workers   []*blob.Scratch
	memory    buffers

	job   int // the next one to put into a unit
	ahead []*unitLoad
	parts sections
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

// run hands the jobs without an error to the workers.
func (l *loader) run() error {
	if err := l.firstError(); err != nil {
		return err
	}
	l.todo, l.job = l.todo[:0], 0
	for _, j := range l.jobs {
		if j.item.Err == nil {
			l.todo = append(l.todo, j)
		}
	}
	if err := schedule.Run(l.schedule(), l.next); err != nil {
		return err
	}
	return l.firstError()
}

// firstError is the error of the first job that has one, unless damaged tensors are only noted.
func (l *loader) firstError() error {
	if l.opt.Salvage {
		return nil
	}
	for _, j := range l.jobs {
		if j.item.Err != nil {
			return j.item.Err
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

// unitLoad is a batch of small tensors (large is nil) or a large one.
type unitLoad struct {
	jobs  []*job
	large *largeLoad
}

// round adds the steps of the first unit ahead; the next one, if it is large, is opened before that.
func (l *loader) round() bool {
	const depth = 2
	for len(l.ahead) < depth && l.job < len(l.todo) {
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
		l.parts.add(1, func(int) schedule.Step { return l.batchStep(u.jobs) })
	} else {
		l.parts.add(u.large.steps(), u.large.chunkStep)
	}
	return true
}

// cut takes the next unit off the jobs: a large tensor, or small ones whose blobs lie close to each other.
func (l *loader) cut() *unitLoad {
	start := l.job
	nbytes, at := uint64(0), uint64(0)
	for l.job < len(l.todo) {
		e := l.todo[l.job].entry
		if e.isLarge() {
			if l.job == start {
				l.job++
				return &unitLoad{large: newLargeLoad(l, l.todo[start])}
			}
			break
		}
		if l.job > start && e.Tail.Offset > at+readGap {
			break
		}
		l.job++
		nbytes += e.Geometry.NBytes() + e.Tail.NBytes
		at = e.Tail.Offset + e.Tail.NBytes
		if nbytes >= batchBytes || l.job-start >= batchCount {
			break
		}
	}
	return &unitLoad{jobs: l.todo[start:l.job]}
}

// readGap is how many bytes between two blobs are read rather than skipped.
const readGap = 1 << 14

// isLarge reports whether the tensor is read chunk by chunk.
func (e *Entry) isLarge() bool { return e.Geometry.Chunks() > blob.SmallChunks }
