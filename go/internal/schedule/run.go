package schedule

import (
	"sync"
	"sync/atomic"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// Step is one bounded piece of work.
type Step struct {
	// Run does the work on one of the workers, which are numbered from 0.
	Run func(worker int) error
	// Emit, if not nil, runs on the calling goroutine after Run, in the order of the steps.
	Emit func() error
}

// Options bound a run.
type Options struct {
	Threads int    // workers, at least 1; with 1 everything runs on the calling goroutine
	Window  int    // steps with an Emit that may be started and not yet emitted, at least 1
	Cancel  *int32 // polled before each step; may be nil
}

// Run executes the steps that next returns until it returns false. next is never called concurrently. The first error,
// in the order of the steps, ends the run: steps that have started are finished, no other is started.
func Run(opt Options, next func() (Step, bool)) error {
	if opt.Threads <= 1 {
		return runAlone(opt, next)
	}
	r := &runner{opt: opt, next: next, slots: make([]slot, opt.Window), firstSeq: -1}
	r.wake.L = &r.mu
	var workers sync.WaitGroup
	for w := range opt.Threads {
		workers.Go(func() { r.work(w) })
	}
	r.emit()
	workers.Wait()
	return r.result()
}

func cancelled(flag *int32) bool { return flag != nil && atomic.LoadInt32(flag) != 0 }

// runAlone is Run with one worker.
func runAlone(opt Options, next func() (Step, bool)) error {
	for {
		if cancelled(opt.Cancel) {
			return fault.Cancelled()
		}
		step, ok, err := guardedNext(next)
		if err != nil || !ok {
			return err
		}
		if err := guarded(func() error { return step.Run(0) }); err != nil {
			return err
		}
		if step.Emit == nil {
			continue
		}
		if err := guarded(step.Emit); err != nil {
			return err
		}
	}
}

// slot is a started step that has an Emit.
type slot struct {
	seq  int
	emit func() error
	done bool
}

type runner struct {
	opt  Options
	next func() (Step, bool)

	mu       sync.Mutex
	wake     sync.Cond // any change below
	started  int       // steps taken from next
	ended    bool      // next has no more
	stopped  bool      // an error happened
	slots    []slot    // ring of started steps with an Emit
	head     int       // emitted so far
	tail     int       // started so far, of those with an Emit
	firstSeq int       // step of firstErr
	firstErr error
}

// work is one worker: take a step, run it, again.
func (r *runner) work(worker int) {
	for {
		step, seq, at, ok := r.take()
		if !ok {
			return
		}
		err := guarded(func() error { return step.Run(worker) })
		r.mu.Lock()
		if err != nil {
			r.fail(seq, err)
		}
		if at >= 0 {
			r.slots[at].done = true
			r.wake.Broadcast()
		}
		r.mu.Unlock()
	}
}

// take waits until the window has room and starts the next step; at is its slot, or -1.
func (r *runner) take() (step Step, seq, at int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.stopped && !r.ended && r.tail-r.head >= len(r.slots) {
		r.wake.Wait()
	}
	if r.stopped || r.ended {
		return step, 0, -1, false
	}
	if cancelled(r.opt.Cancel) {
		r.fail(r.started, fault.Cancelled())
		return step, 0, -1, false
	}
	step, ok, err := guardedNext(r.next)
	if err != nil {
		r.fail(r.started, err)
		return step, 0, -1, false
	}
	if !ok {
		r.ended = true
		r.wake.Broadcast()
		return step, 0, -1, false
	}
	seq, at = r.started, -1
	r.started++
	if step.Emit != nil {
		at = r.tail % len(r.slots)
		r.slots[at] = slot{seq: seq, emit: step.Emit}
		r.tail++
	}
	return step, seq, at, true
}

// emit runs the Emit functions in order until the stream ends or an error stops it.
func (r *runner) emit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for !r.stopped && !(r.head < r.tail && r.slots[r.head%len(r.slots)].done) && !(r.ended && r.head == r.tail) {
			r.wake.Wait()
		}
		if r.stopped || r.head == r.tail {
			return
		}
		s := r.slots[r.head%len(r.slots)]
		r.slots[r.head%len(r.slots)] = slot{}
		r.mu.Unlock()
		err := guarded(s.emit)
		r.mu.Lock()
		r.head++
		if err != nil {
			r.fail(s.seq, err)
		}
		r.wake.Broadcast()
	}
}

// fail records an error of a step; the caller holds the lock.
func (r *runner) fail(seq int, err error) {
	if r.firstSeq < 0 || seq < r.firstSeq {
		r.firstSeq, r.firstErr = seq, err
	}
	r.stopped = true
	r.wake.Broadcast()
}

func (r *runner) result() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.firstErr
}
