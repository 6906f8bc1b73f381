package blob

import (
	"bytes"

	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// choose picks how the tensor is going to be coded (FORMAT.md section 21, steps 1 to 4). Whether a large tensor is equal to
// its reference shows in Scan.
func (e *Encoder) choose(s *Scratch) {
	switch {
	case e.g.Elements == 0:
		e.plan = PlanStored
		return
	case e.small && e.ref != nil && bytes.Equal(e.target, e.ref):
		e.plan = PlanIdentical
		return
	}
	if e.g.Elements > 1 && allEqual(e.target, e.g.DType.ItemSize) {
		e.plan = PlanConstant // a large tensor may still turn out to be equal to its reference
		return
	}
	e.plan = PlanCoded
	s.sample.take(e.target, e.ref, e.g.laneBytes())
	if s.sample.whole() {
		e.chooseWhole(s)
		return
	}
	without, costWithout := withoutReference(&s.sample, &e.g)
	e.head.spec = without
	if e.ref != nil {
		if with, cost := withReference(&s.sample, &e.g); cost <= costWithout {
			e.head.spec = with
		}
	}
	e.open = e.head.spec.Map == mapLeading
}

// allEqual reports whether b repeats its first item bytes.
func allEqual(b []byte, item int) bool { return bytes.Equal(b[item:], b[:len(b)-item]) }

// withReference returns the best candidate R and its estimate.
func withReference(s *sample, g *Geometry) (transform.Spec, uint64) {
	spec := referenceSpec(s, g)
	return choosePlane(s, spec)
}

// referenceSpec is candidate R but for the raw plane.
func referenceSpec(s *sample, g *Geometry) transform.Spec {
	spec := specFor(&g.DType)
	spec.Predictor = predictReference
	switch {
	case spec.Width == 8:
		spec.Map, spec.ContextPart = mapDirect, contextByte
	case spec.Float:
		spec.Map, spec.ContextPart = mapHybrid, contextExponent
		spec.ExpBase = exponentBase(&spec, s.ref)
	default:
		spec.Map = mapHybrid
	}
	return spec
}

// withoutReference returns the best candidate N and its estimate. With token map 1 the range of tokens is that of the sample.
func withoutReference(s *sample, g *Geometry) (transform.Spec, uint64) {
	spec := plainSpec(s, g)
	return choosePlane(s, spec)
}

// plainSpec is candidate N but for the raw plane of token map 0.
func plainSpec(s *sample, g *Geometry) transform.Spec {
	spec := specFor(&g.DType)
	switch {
	case spec.Width == 8:
		spec.Map = mapDirect
	case spec.Float:
		spec.Map = mapLeading
		s.zs = sized(s.zs, s.lanes)
		spec.Zs(s.zs, s.target, nil)
		lo, hi := rangeOf(s.zs)
		setLeading(&spec, lo, hi)
	default:
		spec.Map = mapHybrid
	}
	return spec
}

// choosePlane returns spec with the raw plane that section 21 chooses for token map 0, and the estimate.
func choosePlane(s *sample, spec transform.Spec) (transform.Spec, uint64) {
	estimates := [maxPlane/8 + 1]uint64{s.estimate(&spec)}
	if spec.Map != mapHybrid || spec.Width == 16 {
		return spec, estimates[0]
	}
	widest := maxPlane
	if spec.Width == 32 {
		widest = 16
	}
	least := estimates[0]
	for k := 8; k <= widest; k += 8 {
		spec.K = k
		estimates[k/8] = s.estimate(&spec)
		least = min(least, estimates[k/8])
	}
	for estimates[spec.K/8] > least+least>>10 {
		spec.K -= 8
	}
	return spec, estimates[spec.K/8]
}

// chooseWhole is the choice for a tensor that is its own sample: the candidates are split and counted once and for all.
func (e *Encoder) chooseWhole(s *Scratch) {
	without := plainSpec(&s.sample, &e.g)
	cost := s.pair[0].run(&s.sample, &without)
	e.head.spec, e.tried = without, &s.pair[0]
	if e.ref == nil {
		return
	}
	with := referenceSpec(&s.sample, &e.g)
	if s.pair[1].run(&s.sample, &with) <= cost {
		e.head.spec, e.tried = with, &s.pair[1]
	}
}

// trial is a candidate that was split to the end to be judged.
type trial struct {
	kept
	histogram model.Histogram
}

// run chooses the raw plane of spec, splits and counts the whole tensor, and returns the estimate.
func (t *trial) run(s *sample, spec *transform.Spec) (cost uint64) {
	if spec.Map == mapHybrid && spec.Width > 16 {
		*spec, cost = choosePlane(s, *spec)
	}
	t.start(s.lanes)
	t.add(spec, s.target, s.ref)
	t.histogram.Reset(spec.Contexts(), spec.Alphabet())
	t.histogram.Add(t.ix)
	if cost == 0 {
		planeBytes, tailBits := t.raw.Len()
		cost = model.EstimateBits16(&t.histogram, uint64(8*planeBytes+tailBits), s.all, s.all)
	}
	return cost
}
