package blob

import (
	"math/bits"

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

// leadingBits is how many leading bits of a value can matter: sign and exponent without one, and two mantissa bits.
const leadingBits = 13

// leadingCount counts the values of a tensor by context and leading bits: enough of them for every token map 1 that the range of
// the whole tensor may ask for.
type leadingCount struct {
	contexts int
	used     int      // of the counts of a context, for the dtype
	zeros    []uint64 // values 0, by context

	// By z >> (MantBits-1), zeros included. One context has four counts, so that equal neighbours do not wait for each other;
	// several have counts one after the other.
	counts  [4][1 << leadingBits]uint64
	several []uint64
}

func (c *leadingCount) reset(s *transform.Spec, contexts int) {
	c.contexts = contexts
	c.used = 1 << (s.ExpBits + 2)
	c.zeros = sized(c.zeros, contexts)
	clear(c.zeros)
	if contexts > 1 {
		c.several = sized(c.several, contexts*c.used)
		clear(c.several)
		return
	}
	for i := range c.counts {
		clear(c.counts[i][:c.used])
	}
}

// add counts the lane values of b; contexts holds their contexts where there are several.
func (c *leadingCount) add(s *transform.Spec, b []byte, contexts []uint8) {
	switch {
	case s.Width == 16 && c.contexts > 1:
		addSeveral[uint16](c, s, b, contexts)
	case s.Width == 32 && c.contexts > 1:
		addSeveral[uint32](c, s, b, contexts)
	case c.contexts > 1:
		addSeveral[uint64](c, s, b, contexts)
	case s.Width == 16:
		addLeading[uint16](c, s, b)
	case s.Width == 32:
		addLeading[uint32](c, s, b)
	case s.Width == 64:
		addLeading[uint64](c, s, b)
	}
}

func addSeveral[T uint16 | uint32 | uint64](c *leadingCount, s *transform.Spec, b []byte, contexts []uint8) {
	shift, top := (s.MantBits-1)&63, bits.Len64(uint64(^T(0)))-1
	for i, context := range contexts[:len(b)/(s.Width/8)] {
		x := le.Load[T](b, i)
		x = x<<1 | x>>top
		c.zeros[context] += isZero(x)
		c.several[int(context)*c.used+int(x>>shift)]++
	}
}

func addLeading[T uint16 | uint32 | uint64](c *leadingCount, s *transform.Spec, b []byte) {
	const mask = 1<<leadingBits - 1 // only drops the bounds checks
	shift, top := (s.MantBits-1)&63, bits.Len64(uint64(^T(0)))-1
	n := len(b) / (s.Width / 8)
	zeros := uint64(0)
	i := 0
	for ; i <= n-4; i += 4 {
		x0, x1, x2, x3 := le.Load[T](b, i), le.Load[T](b, i+1), le.Load[T](b, i+2), le.Load[T](b, i+3)
		x0, x1, x2, x3 = x0<<1|x0>>top, x1<<1|x1>>top, x2<<1|x2>>top, x3<<1|x3>>top
		zeros += isZero(x0) + isZero(x1) + isZero(x2) + isZero(x3)
		c.counts[0][x0>>shift&mask]++
		c.counts[1][x1>>shift&mask]++
		c.counts[2][x2>>shift&mask]++
		c.counts[3][x3>>shift&mask]++
	}
	for ; i < n; i++ {
		x := le.Load[T](b, i)
		x = x<<1 | x>>top
		zeros += isZero(x)
		c.counts[0][x>>shift&mask]++
	}
	c.zeros[0] += zeros
}

// isZero is 1 for 0 and 0 for every other v, without a branch.
func isZero[T uint16 | uint32 | uint64](v T) (is uint64) {
	if v == 0 {
		is = 1
	}
	return is
}

// merge adds the counts of o.
func (c *leadingCount) merge(o *leadingCount) {
	for context, n := range o.zeros {
		c.zeros[context] += n
	}
	if c.contexts > 1 {
		for v, n := range o.several {
			c.several[v] += n
		}
		return
	}
	for i := range c.counts {
		for v, n := range o.counts[i][:o.used] {
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

// of returns the counts of a context.
func (c *leadingCount) of(context int) []uint64 {
	if c.contexts > 1 {
		return c.several[context*c.used:][:c.used]
	}
	return c.counts[0][:c.used]
}

// settle sets the token map of spec for the values counted and fills h with the counts of its tokens.
func (c *leadingCount) settle(s *transform.Spec, h *model.Histogram) {
	if c.contexts == 1 {
		for v := range c.of(0) {
			c.counts[0][v] += c.counts[1][v] + c.counts[2][v] + c.counts[3][v]
		}
	}
	low := s.MantBits - 1
	lo, hi, any := uint64(0), uint64(0), false
	for context, zeros := range c.zeros {
		c.of(context)[0] -= zeros
		for v, n := range c.of(context) {
			if n > 0 {
				if !any || uint64(v) < lo {
					lo, any = uint64(v), true
				}
				hi = max(hi, uint64(v))
			}
		}
	}
	setLeading(s, lo<<low, hi<<low)
	h.Reset(c.contexts, s.A)
	for context, zeros := range c.zeros {
		h.AddCount(context, 0, zeros)
		for v, n := range c.of(context)[:hi+1] {
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
	var a0, a1, a2, a3 T // the doubled value has lost its sign
	n := len(b) / laneBytes
	i := 0
	for ; i <= n-4; i += 4 {
		a0, a1 = max(a0, le.Load[T](b, i)<<1), max(a1, le.Load[T](b, i+1)<<1)
		a2, a3 = max(a2, le.Load[T](b, i+2)<<1), max(a3, le.Load[T](b, i+3)<<1)
	}
	for ; i < n; i++ {
		a0 = max(a0, le.Load[T](b, i)<<1)
	}
	return uint64(max(a0, a1, a2, a3) >> 1)
}
