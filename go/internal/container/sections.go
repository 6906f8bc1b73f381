package container

import "github.com/ulpack/ulpack/go/internal/schedule"

// sections is a queue of rows of steps; each row makes its steps when they are wanted.
type sections struct{ queue []section }

type section struct {
	next, n int
	step    func(i int) schedule.Step
}

// add appends n steps.
func (s *sections) add(n int, step func(i int) schedule.Step) {
	if n > 0 {
		s.queue = append(s.queue, section{0, n, step})
	}
}

// next takes the first step.
func (s *sections) next() (schedule.Step, bool) {
	if len(s.queue) == 0 {
		return schedule.Step{}, false
	}
	first := &s.queue[0]
	step := first.step(first.next)
	if first.next++; first.next == first.n {
		s.queue = append(s.queue[:0], s.queue[1:]...)
	}
	return step, true
}
