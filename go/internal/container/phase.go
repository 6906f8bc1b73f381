package container

import (
	"sync"
	"sync/atomic"
)

// phase is a row of steps that have to be done before the next row may begin.
type phase struct {
	left   atomic.Int64
	failed atomic.Bool
	done   sync.WaitGroup
}

func (p *phase) start(n int) {
	p.left.Store(int64(n))
	p.done.Add(1)
}

// do runs one step of the phase, unless the phase before has failed; after the last step it runs finish (which may be nil).
// A step that panics counts as done and failed, so that no other waits for it for ever.
func (p *phase) do(before bool, step, finish func()) {
	whole := false
	defer func() {
		if !whole {
			p.failed.Store(true)
		}
		if p.left.Add(-1) == 0 {
			p.finish(finish)
		}
	}()
	if before {
		step()
		whole = true
	}
}

func (p *phase) finish(finish func()) {
	defer p.done.Done()
	if finish == nil || p.failed.Load() {
		return
	}
	whole := false
	defer func() {
		if !whole {
			p.failed.Store(true)
		}
	}()
	finish()
	whole = true
}

// wait waits for the end of the phase and reports whether all of it was done.
func (p *phase) wait() bool {
	p.done.Wait()
	return !p.failed.Load()
}
