package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/predict"
)

// candidate is a way of coding the tensor that is being judged on the sample (FORMAT.md sections 21 and 32).
type candidate struct {
	head  header
	slots []Slot // that head refers to

	sampled   view            // the sample
	histogram model.Histogram // of the sample
	plane     int             // K for which histogram was counted
	kept                      // the sample split, where that was needed to judge
	split     bool

	looker looker
	memory [predict.MaxSlots][]byte
}

// reset makes it a candidate for lanes of a dtype that codes the sample's lane values alone.
func (c *candidate) reset(s *sample, lane *dtype.Info) {
	c.head = header{spec: specFor(lane)}
	c.slots = c.slots[:0]
	c.sampled = view{lanes: s.lanes, target: s.target}
}

// reference prepares candidate R, or, where ref is no reference but a prediction, the coding of its residual.
func (c *candidate) reference(s *sample, lane *dtype.Info, ref []byte) {
	c.reset(s, lane)
	c.sampled.ref = ref
	spec := &c.head.spec
	spec.Predictor = predictReference
	switch {
	case spec.Width == 8:
		spec.Map, spec.ContextPart = mapDirect, contextByte
	case spec.Float:
		spec.Map, spec.ContextPart = mapHybrid, contextExponent
		spec.ExpBase = exponentBase(spec, ref)
	default:
		spec.Map = mapHybrid
	}
}

// plain prepares candidate N.
func (c *candidate) plain(s *sample, lane *dtype.Info) {
	c.reset(s, lane)
	spec := &c.head.spec
	switch {
	case spec.Width == 8:
		spec.Map = mapDirect
	case spec.Float:
		spec.Map = mapLeading
	default:
		spec.Map = mapHybrid
	}
}

// plainBeside prepares candidate NC: N in the context of the exponents of another tensor.
func (c *candidate) plainBeside(s *sample, lane *dtype.Info, other *Slot) {
	c.plain(s, lane)
	c.slots = append(c.slots, *other)
	c.head.beside = newBeside(0, &other.DType)
	c.sampled.beside = s.collect(&c.memory[0], other.Data, other.DType.ItemSize)
	c.head.beside.spec.ExpBase = exponentBase(&c.head.beside.spec, c.sampled.beside)
}

// program prepares the candidate of a proposal.
func (c *candidate) program(s *sample, own *dtype.Info, p *Proposal) {
	var slots [predict.MaxSlots][]byte
	for i := range p.Slots {
		slots[i] = s.collect(&c.memory[i], p.Slots[i].Data, p.Slots[i].DType.Width/8)
	}
	c.looker.prediction = sized(c.looker.prediction, s.lanes*own.Width/8)
	p.Program.Predict(c.looker.prediction, slots[:len(p.Slots)], own, dtypesOf(p.Slots))
	c.reference(s, own, c.looker.prediction)
	program := p.Program
	c.head.program = &program
	c.slots = append(c.slots, p.Slots...)
}

// judge settles what the sample says about the candidate's parameters and returns its estimate.
func (c *candidate) judge(s *sample) uint64 {
	c.split = false
	spec := &c.head.spec
	switch {
	case spec.Map == mapLeading:
		s.leading.reset(spec, c.head.contexts())
		s.leading.add(spec, c.sampled.target, c.looker.besideContexts(&c.head, &c.sampled))
		s.leading.settle(spec, &c.histogram)
		c.plane = spec.K
		return s.estimate(&c.histogram, uint64(spec.T)*(uint64(s.lanes)-s.leading.allZeros()))
	case spec.Map == mapHybrid && spec.Width > 16:
		return c.choosePlane(s)
	}
	c.splitSample()
	c.count(c.ix)
	_, tailBits := c.raw.Len()
	return s.estimate(&c.histogram, uint64(tailBits))
}

// splitSample splits the sample.
func (c *candidate) splitSample() {
	c.start(c.sampled.lanes)
	c.add(&c.head, &c.sampled, &c.looker)
	c.split = true
}

// count counts the tokens of the sample.
func (c *candidate) count(ix []uint16) {
	c.histogram.Reset(c.head.contexts(), c.head.spec.Alphabet())
	c.histogram.Add(ix)
	c.plane = c.head.spec.K
}

// choosePlane sets the raw plane that section 21 chooses for token map 0 and returns the estimate.
func (c *candidate) choosePlane(s *sample) uint64 {
	spec := &c.head.spec
	widest := maxPlane
	if spec.Width == 32 {
		widest = 16
	}
	s.ix = sized(s.ix, s.lanes)
	spec.Tokens(s.ix, c.sampled.target, c.sampled.ref)
	var estimates [maxPlane/8 + 1]uint64
	least := ^uint64(0)
	tailBits := hybridTailBits(s.ix)
	for k := 0; k <= widest; k += 8 {
		if k > 0 {
			tailBits = coarsen(s.ix)
		}
		spec.K = k
		c.count(s.ix)
		estimates[k/8] = s.estimate(&c.histogram, uint64(k*s.lanes)+tailBits)
		least = min(least, estimates[k/8])
	}
	for estimates[spec.K/8] > least+least>>10 {
		spec.K -= 8
	}
	return estimates[spec.K/8]
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
func (c *candidate) complete() {
	if !c.split {
		c.splitSample()
	}
	if c.plane != c.head.spec.K {
		c.count(c.ix)
	}
}

// forget drops what belongs to the caller.
func (c *candidate) forget() {
	clear(c.slots[:cap(c.slots)])
	c.head, c.sampled = header{}, view{}
}

// Proposal is a prediction that a tensor may be coded with.
type Proposal struct {
	Program predict.Program
	Slots   []Slot // that Program.Slots refers to
	Exact   bool   // it is known to be right for every lane value
}
