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

// leadingCount counts the values of a tensor by context and leading bits: enough of them for every token map 1 that the
// range of the whole tensor may ask for.
type leadingCount struct {
	cells  int         // of a context
	zeros  []uint64    // values 0, by context
	counts [2][]uint64 // by context and z >> (MantBits-1), zeros included; two, so that equal neighbours do not wait for each other
}

func (c *leadingCount) reset(s *transform.Spec, contexts int) {
	c.cells = 1 << (s.ExpBits + 2)
	c.zeros = sized(c.zeros, contexts)
	clear(c.zeros)
	for i := range c.counts {
		c.counts[i] = sized(c.counts[i], contexts*c.cells)
		clear(c.counts[i])
	}
}

// add counts the lane values of b; contexts holds their contexts, nil for one.
func (c *leadingCount) add(s *transform.Spec, b []byte, contexts []uint8) {
	switch s.Width {
	case 16:
		addLeading[uint16](c, s, b, contexts)
	case 32:
		addLeading[uint32](c, s, b, contexts)
	case 64:
		addLeading[uint64](c, s, b, contexts)
	}
}

func addLeading[T uint16 | uint32 | uint64](c *leadingCount, s *transform.Spec, b []byte, contexts []uint8) {
	even, odd := c.counts[0], c.counts[1]
	shift, top := s.MantBits-1, s.Width-1
	n := len(b) / (s.Width / 8)
	if contexts != nil {
		for i, context := range contexts[:n] {
			x := le.Load[T](b, i)
			z := x<<1 | x>>top
			if z == 0 {
				c.zeros[context]++
			}
			even[int(context)*c.cells+int(z>>shift)]++
			even, odd = odd, even
		}
		return
	}
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
	c.zeros[0] += zeros
}

// merge adds the counts of o.
func (c *leadingCount) merge(o *leadingCount) {
	for context, n := range o.zeros {
		c.zeros[context] += n
	}
	for i := range c.counts {
		for v, n := range o.counts[i] {
			c.counts[i][v] += n
		}
	}
}

// allZeros is the number of values 0.
func (c *leadingCount) allZeros() (sum uint64) {
	for _, n := range c.zeros {
		sum += n
	}
	return sum
}

// settle sets the token map of spec for the values counted and fills h with the counts of its tokens.
func (c *leadingCount) settle(s *transform.Spec, h *model.Histogram) {
	all := c.counts[0]
	for v, n := range c.counts[1] {
		all[v] += n
	}
	low := s.MantBits - 1
	lo, hi := ^uint64(0), uint64(0)
	for context, zeros := range c.zeros {
		row := all[context*c.cells:][:c.cells]
		row[0] -= zeros
		for v, n := range row {
			if n > 0 {
				lo, hi = min(lo, uint64(v)), max(hi, uint64(v))
			}
		}
	}
	setLeading(s, min(lo, hi)<<low, hi<<low)
	h.Reset(len(c.zeros), s.A)
	for context, zeros := range c.zeros {
		h.AddCount(context, 0, zeros)
		for v, n := range all[context*c.cells:][:c.cells] {
			if n > 0 {
				h.AddCount(context, int(uint64(v)>>(s.T-low)-s.Base)+1, n)
			}
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
