package blob

import (
	"github.com/ulpack/ulpack/go/internal/le"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// setLeading sets the fields of token map 1 for values z that, where not 0, lie in lo .. hi (FORMAT.md section 21).
func setLeading(s *transform.Spec, lo, hi uint64) {
	s.T = s.MantBits - 1
	for hi>>s.T-lo>>s.T+2 > model.MaxTokens {
		s.T++
	}
	s.Base = lo >> s.T
	s.A = int(hi>>s.T-s.Base) + 2
	s.K = 0
	if s.Width > 16 {
		s.K = min(s.T&^7, maxPlane)
	}
}

// leadingCount counts the values of a tensor by their leading bits: enough of them for every token map 1 that the range of
// the whole tensor may ask for.
type leadingCount struct {
	zeros  uint64
	counts [2][]uint64 // by z >> (MantBits-1), zeros included; two, so that equal neighbours do not wait for each other
}

func (c *leadingCount) reset(s *transform.Spec) {
	c.zeros = 0
	for i := range c.counts {
		c.counts[i] = sized(c.counts[i], 1<<(s.Width-s.MantBits+1))
		clear(c.counts[i])
	}
}

// add counts the lane values of b.
func (c *leadingCount) add(s *transform.Spec, b []byte) {
	switch s.Width {
	case 16:
		addLeading[uint16](c, s, b)
	case 32:
		addLeading[uint32](c, s, b)
	case 64:
		addLeading[uint64](c, s, b)
	}
}

func addLeading[T uint16 | uint32 | uint64](c *leadingCount, s *transform.Spec, b []byte) {
	even, odd := c.counts[0], c.counts[1]
	shift, top := s.MantBits-1, s.Width-1
	n := len(b) / (s.Width / 8)
	zeros := uint64(0)
	for i := range n {
		x := le.Load[T](b, i)
		z := x<<1 | x>>top
		if z == 0 {
			zeros++
		}
		even[z>>shift]++
		even, odd = odd, even
	}
	c.zeros += zeros
}

// merge adds the counts of o.
func (c *leadingCount) merge(o *leadingCount) {
	c.zeros += o.zeros
	for i := range c.counts {
		for v, n := range o.counts[i] {
			c.counts[i][v] += n
		}
	}
}

// settle sets the token map of spec for the values counted and fills h with the counts of its tokens.
func (c *leadingCount) settle(s *transform.Spec, h *model.Histogram) {
	all := c.counts[0]
	for v, n := range c.counts[1] {
		all[v] += n
	}
	all[0] -= c.zeros
	low := s.MantBits - 1
	lo, hi, any := uint64(0), uint64(0), false
	for v, n := range all {
		if n > 0 {
			if !any {
				lo, any = uint64(v), true
			}
			hi = uint64(v)
		}
	}
	setLeading(s, lo<<low, hi<<low)
	h.Reset(1, s.A)
	h.AddCount(0, 0, c.zeros)
	for v, n := range all {
		if n > 0 {
			h.AddCount(0, int(uint64(v)>>(s.T-low)-s.Base)+1, n)
		}
	}
}

// exponentBase is the exponent base of section 21 for the reference values of the sample.
func exponentBase(s *transform.Spec, ref []byte) uint32 {
	var top uint64
	switch s.Width {
	case 16:
		top = maxMagnitude[uint16](ref, 2)
	case 32:
		top = maxMagnitude[uint32](ref, 4)
	case 64:
		top = maxMagnitude[uint64](ref, 8)
	}
	return uint32(max(0, int(top>>s.MantBits)-29))
}

// maxMagnitude returns the largest lane value of b without its sign bit.
func maxMagnitude[T uint16 | uint32 | uint64](b []byte, laneBytes int) uint64 {
	var top T
	var zero T
	mask := ^zero >> 1
	for i := range len(b) / laneBytes {
		top = max(top, le.Load[T](b, i)&mask)
	}
	return uint64(top)
}
