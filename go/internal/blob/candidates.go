package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// candidate is a way of coding the tensor that is being judged on the sample (FORMAT.md section 21).
type candidate struct {
	spec      transform.Spec
	histogram model.Histogram // of the sample
	plane     int             // K for which histogram was counted
	kept                      // the sample split, where that was needed to judge
	split     bool
}

// reference prepares candidate R.
func (c *candidate) reference(s *sample, g *Geometry) {
	c.spec = specFor(&g.DType)
	c.spec.Predictor = predictReference
	switch {
	case c.spec.Width == 8:
		c.spec.Map, c.spec.ContextPart = mapDirect, contextByte
	case c.spec.Float:
		c.spec.Map, c.spec.ContextPart = mapHybrid, contextExponent
		c.spec.ExpBase = exponentBase(&c.spec, s.ref)
	default:
		c.spec.Map = mapHybrid
	}
}

// plain prepares candidate N.
func (c *candidate) plain(g *Geometry) {
	c.spec = specFor(&g.DType)
	switch {
	case c.spec.Width == 8:
		c.spec.Map = mapDirect
	case c.spec.Float:
		c.spec.Map = mapLeading
	default:
		c.spec.Map = mapHybrid
	}
}

// judge settles what the sample says about the candidate's parameters and returns its estimate.
func (c *candidate) judge(s *sample) uint64 {
	c.split = false
	switch {
	case c.spec.Map == mapLeading:
		s.leading.reset(&c.spec)
		s.leading.add(&c.spec, s.target)
		s.leading.settle(&c.spec, &c.histogram)
		c.plane = c.spec.K
		return s.estimate(&c.histogram, uint64(c.spec.T)*(uint64(s.lanes)-s.leading.zeros))
	case c.spec.Map == mapHybrid && c.spec.Width > 16:
		return c.choosePlane(s)
	}
	c.start(s.lanes)
	c.add(&c.spec, s.target, s.refFor(&c.spec))
	c.split = true
	c.count(c.ix)
	_, tailBits := c.raw.Len()
	return s.estimate(&c.histogram, uint64(tailBits))
}

// count counts the tokens of the sample.
func (c *candidate) count(ix []uint16) {
	c.histogram.Reset(c.spec.Contexts(), c.spec.Alphabet())
	c.histogram.Add(ix)
	c.plane = c.spec.K
}

// choosePlane sets the raw plane that section 21 chooses for token map 0 and returns the estimate.
func (c *candidate) choosePlane(s *sample) uint64 {
	widest := maxPlane
	if c.spec.Width == 32 {
		widest = 16
	}
	s.ix = sized(s.ix, s.lanes)
	c.spec.Tokens(s.ix, s.target, s.refFor(&c.spec))
	var estimates [maxPlane/8 + 1]uint64
	least := ^uint64(0)
	tailBits := hybridTailBits(s.ix)
	for k := 0; k <= widest; k += 8 {
		if k > 0 {
			tailBits = coarsen(s.ix)
		}
		c.spec.K = k
		c.count(s.ix)
		estimates[k/8] = s.estimate(&c.histogram, uint64(k*s.lanes)+tailBits)
		least = min(least, estimates[k/8])
	}
	for estimates[c.spec.K/8] > least+least>>10 {
		c.spec.K -= 8
	}
	return estimates[c.spec.K/8]
}

// hybridTailBits is the number of tail bits that belong to tokens of map 0 (ix holds context<<8 | token).
func hybridTailBits(ix []uint16) (sum uint64) {
	for _, v := range ix {
		sum += uint64(max(int(v&0xff)>>2-1, 0))
	}
	return sum
}

// coarser[s] is the token of map 0 for values without their low 8 bits, where s is the token with them: a token holds the
// leading bits, and below 8 the whole value.
var coarser = func() (t [256]uint8) {
	for s := 8; s < len(t); s++ {
		n, leading := s>>2-1, 4+s&3 // the value is leading << n, and n bits more
		if n >= 8 {
			t[s] = uint8(s - 32)
		} else {
			t[s] = uint8(leading >> (8 - n))
		}
	}
	return t
}()

// coarsen turns tokens of map 0 into those for K + 8 and returns the number of tail bits that belong to them.
func coarsen(ix []uint16) (tailBits uint64) {
	for i, v := range ix {
		token := coarser[uint8(v)]
		tailBits += uint64(max(int(token)>>2-1, 0))
		ix[i] = v&0xff00 | uint16(token)
	}
	return tailBits
}

// complete splits and counts the sample for the final parameters.
func (c *candidate) complete(s *sample) {
	if !c.split {
		c.start(s.lanes)
		c.add(&c.spec, s.target, s.refFor(&c.spec))
		c.split = true
	}
	if c.plane != c.spec.K {
		c.count(c.ix)
	}
}
