package schedule

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// steps hands out n steps made by make.
func steps(n int, make func(i int) Step) func() (Step, bool) {
	i := 0
	return func() (Step, bool) {
		if i == n {
			return Step{}, false
		}
		i++
		return make(i - 1), true
	}
}

func TestEmitsInOrder(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 16} {
		var order []int
		var ran, inFlight, most atomic.Int64
		err := Run(Options{Threads: threads, Window: 5}, steps(1000, func(i int) Step {
			s := Step{Run: func(worker int) error {
				assert.Less(t, worker, threads)
				if i%3 != 0 {
					most.Store(max(most.Load(), inFlight.Add(1)))
				}
				ran.Add(1)
				return nil
			}}
			if i%3 != 0 {
				s.Emit = func() error {
					inFlight.Add(-1)
					order = append(order, i)
					return nil
				}
			}
			return s
		}))
		require.NoError(t, err)
		assert.EqualValues(t, 1000, ran.Load())
		assert.LessOrEqual(t, most.Load(), int64(5))
		require.Len(t, order, 666)
		assert.IsIncreasing(t, order)
	}
}

// A step may wait for any step before it, however narrow the window.
func TestStepsMayWaitForEarlierOnes(t *testing.T) {
	for _, threads := range []int{1, 2, 7} {
		done := make([]chan struct{}, 300)
		for i := range done {
			done[i] = make(chan struct{})
		}
		err := Run(Options{Threads: threads, Window: 1}, steps(len(done), func(i int) Step {
			return Step{
				Run: func(int) error {
					if i > 0 {
						<-done[(i-1)/2]
						<-done[i-1]
					}
					close(done[i])
					return nil
				},
				Emit: func() error { return nil },
			}
		}))
		require.NoError(t, err)
	}
}

func TestFirstErrorWins(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		started := make([]atomic.Bool, 100)
		err := Run(Options{Threads: threads, Window: 20}, steps(100, func(i int) Step {
			return Step{Run: func(int) error {
				started[i].Store(true)
				if i >= 10 {
					return fmt.Errorf("step %d", i)
				}
				return nil
			}}
		}))
		assert.EqualError(t, err, "step 10")
		assert.False(t, started[99].Load())
	}
}

func TestEmitErrorStops(t *testing.T) {
	for _, threads := range []int{1, 4} {
		emitted := 0
		err := Run(Options{Threads: threads, Window: 3}, steps(100, func(i int) Step {
			return Step{
				Run: func(int) error { return nil },
				Emit: func() error {
					emitted++
					if i == 7 {
						return errors.New("full")
					}
					return nil
				},
			}
		}))
		assert.EqualError(t, err, "full")
		assert.Equal(t, 8, emitted)
	}
}

func TestPanicsBecomeErrors(t *testing.T) {
	var none []int
	for _, threads := range []int{1, 4} {
		for name, f := range map[string]func(i int) Step{
			"run":  func(int) Step { return Step{Run: func(int) error { panic("oh") }} },
			"emit": func(int) Step { return Step{Run: func(int) error { return nil }, Emit: func() error { panic("oh") }} },
			"index": func(i int) Step {
				return Step{Run: func(int) error {
					none[i]++
					return nil
				}}
			},
			"next": func(int) Step { panic("oh") },
		} {
			err := Run(Options{Threads: threads, Window: 2}, steps(10, f))
			var e *fault.Error
			require.ErrorAs(t, err, &e, name)
			assert.Equal(t, fault.KindInternal, e.Kind)
			assert.Contains(t, e.Msg, "in schedule.TestPanicsBecomeErrors", name)
		}
	}
	assert.NoError(t, Guarded(func() error { return nil }))
	assert.Error(t, Guarded(func() error { panic("oh") }))
}

func TestCancel(t *testing.T) {
	for _, threads := range []int{1, 4} {
		var flag int32
		ran := atomic.Int64{}
		err := Run(Options{Threads: threads, Window: 2, Cancel: &flag}, steps(100000, func(int) Step {
			return Step{Run: func(int) error {
				if ran.Add(1) == 50 {
					atomic.StoreInt32(&flag, 1)
				}
				return nil
			}}
		}))
		var e *fault.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, fault.KindCancelled, e.Kind)
		assert.Less(t, ran.Load(), int64(100000))
	}
}

func TestNothingToDo(t *testing.T) {
	for _, threads := range []int{1, 4} {
		assert.NoError(t, Run(Options{Threads: threads, Window: 1}, steps(0, nil)))
	}
}
