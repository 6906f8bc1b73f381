package predict

import (
	"sync"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/le"
)

// decay repeats the steps of an optimizer on values that get no gradient.
func (p *Program) decay(dst, src []byte, own *dtype.Info) {
	switch {
	case own.Width == 32:
		decay32(dst, src, p.Runs)
	case p.decayed != nil:
		table := p.decayed.table(p.Runs, own)
		for i := range len(dst) / 2 {
			le.Store(dst, i, table[le.Load[uint16](src, i)])
		}
	default:
		for i := range len(dst) / 2 {
			le.Store(dst, i, decay16(le.Load[uint16](src, i), p.Runs, own))
		}
	}
}

const decayBlock = 256

// decay32 computes blocks, to keep many independent values in flight.
func decay32(dst, src []byte, runs []Run) {
	var p [decayBlock]float32
	n := len(dst) / 4
	for at := 0; at < n; at += decayBlock {
		m := min(decayBlock, n-at)
		for i := range m {
			p[i] = get(src, at+i)
		}
		for _, r := range runs {
			for range r.Count {
				if r.Form == Scale {
					for i := range m {
						p[i] = float32(p[i] * r.C)
					}
				} else {
					for i := range m {
						p[i] = fused(-r.C, p[i], p[i])
					}
				}
			}
		}
		for i := range m {
			r := get(src, at+i)
			if !finite(r) || !finite(p[i]) {
				p[i] = r
			}
			put(dst, at+i, p[i])
		}
	}
}

// decay16 computes one value of a 16-bit dtype: each step in float32, then rounded to the dtype.
func decay16(v uint16, runs []Run, own *dtype.Info) uint16 {
	w := v
	for _, r := range runs {
		for range r.Count {
			x := float32Of(w, own)
			if !finite(x) {
				return v
			}
			if r.Form == Scale {
				x = float32(x * r.C)
			} else {
				x = fused(-r.C, x, x)
			}
			next := round16(x, own)
			if next == w {
				break // it stays
			}
			w = next
		}
	}
	if !finite(float32Of(w, own)) {
		return v
	}
	return w
}

// decayed holds what a program makes of every value of a 16-bit dtype.
type decayed struct {
	once   sync.Once
	values [1 << 16]uint16
}

func (t *decayed) table(runs []Run, own *dtype.Info) *[1 << 16]uint16 {
	t.once.Do(func() {
		for v := range t.values {
			t.values[v] = decay16(uint16(v), runs, own)
		}
	})
	return &t.values
}

// Prepare tells that the program will predict n lane values, so that it may compute what pays in advance. The result of
// Predict does not depend on it.
func (p *Program) Prepare(own *dtype.Info, n uint64) {
	if p.Code == Decay && own.Width == 16 && n >= 1<<16 {
		p.decayed = new(decayed)
	}
}
