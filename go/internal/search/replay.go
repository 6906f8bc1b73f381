package search

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/ulpack/ulpack/go/internal/predict"
)

// Constants of optimizers that are tried (FORMAT.md section 33).
var (
	firstRates  = []float64{0.9, 0.95, 0.8, 0.85, 0.98, 0.99, 0.5, 0}
	secondRates = []float64{0.999, 0.95, 0.98, 0.99, 0.995, 0.9, 0.9999}
	epsilons    = []float64{1e-8, 1e-6, 1e-7, 1e-5, 1e-10, 1e-15}
)

// floats are the float32 values of lane values.
type floats []float32

func floatsOf(b []byte, places []int) floats {
	out := make(floats, len(places))
	for i, p := range places {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*p:]))
	}
	return out
}

// order is the place of a float32 in the order of values.
func order(v float32) int64 {
	u := math.Float32bits(v)
	if u>>31 != 0 {
		return -int64(u & 0x7fffffff)
	}
	return int64(u)
}

// near reports whether two values are at most steps representable values apart.
func near(a, b float32, steps int64) bool {
	d := order(a) - order(b)
	return -steps <= d && d <= steps
}

func finite(v float32) bool { return math.Float32bits(v)&0x7f800000 != 0x7f800000 }

// findAdamV finds the rates of a step of Adam that gives the second moment v from the first moments: the first ones for which
// most lane values of the sample are at most one step off, and that at least half are.
func findAdamV(v, m *Tensor) (predict.Program, bool) {
	places := samplePlaces(v.elements())
	v0, v1 := floatsOf(v.Ref, places), floatsOf(v.Target, places)
	m0, m1 := floatsOf(m.Ref, places), floatsOf(m.Target, places)
	count := func(b2, w1, w2 float32, lanes []int) (n int) {
		for _, i := range lanes {
			if p := predict.AdamVStep(v0[i], m0[i], m1[i], b2, w1, w2); finite(p) && near(p, v1[i], 1) {
				n++
			}
		}
		return n
	}
	var gate, all []int // the gate: lane values that changed
	for i := range places {
		all = append(all, i)
		if len(gate) < gateLanes && math.Float32bits(m0[i]) != math.Float32bits(m1[i]) {
			gate = append(gate, i)
		}
	}
	best, most := predict.Program{}, 0
	for _, first := range firstRates {
		for _, second := range secondRates {
			b2, w1, w2 := float32(second), float32(1-first), float32(1-second)
			if 2*count(b2, w1, w2, gate) < len(gate) {
				continue
			}
			if n := count(b2, w1, w2, all); n > most {
				most = n
				best = predict.Program{Code: predict.AdamV, Slots: [predict.MaxSlots]uint8{0, 1, 2}, Consts: [4]float32{b2, w1, w2}}
			}
		}
	}
	return best, most > 0 && 2*most >= len(places)
}

// findSteps notes what numbers of steps the file's single values may be.
func (f *Finder) findSteps() {
	const most = 4
	for i := range f.tensors {
		t := &f.tensors[i]
		if t.elements() != 1 || len(f.steps) >= most {
			continue
		}
		var v float64
		switch t.DType.Name {
		case "float32":
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Target)))
		case "float64":
			v = math.Float64frombits(binary.LittleEndian.Uint64(t.Target))
		case "int64":
			v = float64(int64(binary.LittleEndian.Uint64(t.Target)))
		case "int32":
			v = float64(int32(binary.LittleEndian.Uint32(t.Target)))
		}
		if v >= 1 && v <= 1<<24 && v == math.Trunc(v) && !slices.Contains(f.steps, uint64(v)) {
			f.steps = append(f.steps, uint64(v))
		}
	}
}

// power is b^n by squaring.
func power(b float64, n uint64) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= b
		}
		b *= b
	}
	return p
}

// corrections lists what the root of the second moment may be divided by: 1, and the correction of its bias at the numbers of
// steps that the file may tell.
func corrections(b2 float32, steps []uint64) []float32 {
	list := []float32{1}
	for _, rate := range secondRates {
		if float32(rate) != b2 {
			continue
		}
		for _, t := range steps {
			s2 := float32(math.Sqrt(1 - power(rate, t)))
			if !slices.Contains(list, s2) {
				list = append(list, s2)
			}
		}
	}
	return list
}

// findAdamW finds the constants of a step of AdamW that gives weight x from the moments: a fit for each way of computing the
// direction, of which the one with the most exact lane values is refined.
func findAdamW(x, m, v *Tensor, b2 float32, steps []uint64) (predict.Program, bool) {
	places := samplePlaces(x.elements())
	w := &weightSample{x0: floatsOf(x.Ref, places), x1: floatsOf(x.Target, places)}
	m1, v1 := floatsOf(m.Target, places), floatsOf(v.Target, places)
	w.q = make(floats, len(places))
	most := 0
	var best predict.Program
	for _, s2 := range corrections(b2, steps) {
		for _, e := range epsilons {
			eps := float32(e)
			for i := range w.q {
				w.q[i] = predict.AdamWDirection(m1[i], v1[i], s2, eps)
			}
			c, a, ok := w.fit()
			if !ok {
				continue
			}
			if c, a, n := w.refine(c, a); n > most {
				most = n
				best = predict.Program{
					Code: predict.AdamW, Slots: [predict.MaxSlots]uint8{0, 1, 2}, Consts: [4]float32{c, s2, eps, a},
				}
			}
		}
	}
	return best, most > 0 && 2*most >= len(places)
}

// findSGD finds the constants of a step of SGD that gives weight x from a momentum, likewise.
func findSGD(x, momentum *Tensor) (predict.Program, bool) {
	places := samplePlaces(x.elements())
	w := &weightSample{x0: floatsOf(x.Ref, places), x1: floatsOf(x.Target, places), q: floatsOf(momentum.Target, places)}
	c, a, ok := w.fit()
	if !ok {
		return predict.Program{}, false
	}
	c, a, n := w.refine(c, a)
	p := predict.Program{Code: predict.SGDWeight, Slots: [predict.MaxSlots]uint8{0, 1}, Consts: [4]float32{c, a}}
	return p, n > 0 && 2*n >= len(places)
}

// weightSample is a sample of a weight before and after a step, and of the direction of the step: x1 = c x0 + a q.
type weightSample struct {
	x0, x1, q floats
	strong    []int // the lane values that tell most about a
}

// predicted is the weight after the step.
func (w *weightSample) predicted(i int, c, a float32) float32 {
	return predict.WeightStep(w.x0[i], w.q[i], c, a)
}

// usable reports whether a lane value tells something.
func (w *weightSample) usable(i int) bool {
	return finite(w.x0[i]) && finite(w.x1[i]) && finite(w.q[i]) && w.q[i] != 0
}

// fit solves for c and a by least squares, in float64 and in the order of the lane values. It is ok only if it explains the
// change of most of them to within a few steps.
func (w *weightSample) fit() (c, a float32, ok bool) {
	var xx, xq, qq, xd, qd float64
	n := 0
	for i := range w.q {
		if !w.usable(i) {
			continue
		}
		n++
		x, q := float64(w.x0[i]), float64(w.q[i])
		d := float64(w.x1[i]) - x
		xx += float64(x * x)
		xq += float64(x * q)
		qq += float64(q * q)
		xd += float64(x * d)
		qd += float64(q * d)
	}
	det := float64(xx*qq) - float64(xq*xq)
	if n < gateLanes || det == 0 || math.IsInf(det, 0) || math.IsNaN(det) {
		return 0, 0, false
	}
	e := (float64(xd*qq) - float64(qd*xq)) / det // c - 1
	c = float32(1 + e)
	a = float32((float64(qd*xx) - float64(xd*xq)) / det)
	if !finite(c) || !finite(a) || a == 0 {
		return 0, 0, false
	}
	good := 0
	for i := range w.q {
		if w.usable(i) && near(w.predicted(i, c, a), w.x1[i], 4) {
			good++
		}
	}
	return c, a, 2*good >= n
}

// refine looks for the neighbours of c and a that give the most of the strongest lane values exactly, for each of a few c the
// best a in smaller and smaller steps, and counts the exact lane values of the sample.
func (w *weightSample) refine(c, a float32) (float32, float32, int) {
	const strongest = 128
	w.rank(strongest)
	bestC, bestA, most := c, a, -1
	for _, dc := range []int{0, -1, 1, -2, 2} {
		cc := shifted(c, dc)
		aa, n := a, w.exact(w.strong, cc, a)
		for step := 256; step > 0; step /= 4 {
			from := aa
			for k := 1; k <= 8; k++ {
				for _, d := range []int{-k * step, k * step} {
					if other := shifted(from, d); w.exact(w.strong, cc, other) > n {
						aa, n = other, w.exact(w.strong, cc, other)
					}
				}
			}
		}
		if n > most {
			bestC, bestA, most = cc, aa, n
		}
	}
	exact := 0
	for i := range w.q {
		if w.predicted(i, bestC, bestA) == w.x1[i] {
			exact++
		}
	}
	return bestC, bestA, exact
}

// exact counts the lane values that c and a give exactly.
func (w *weightSample) exact(lanes []int, c, a float32) (n int) {
	for _, i := range lanes {
		if w.predicted(i, c, a) == w.x1[i] {
			n++
		}
	}
	return n
}

// rank finds the lane values that tell most about a: those with the largest direction in units of the last place of the
// weight.
func (w *weightSample) rank(most int) {
	w.strong = w.strong[:0]
	strength := make([]float64, len(w.q))
	for i := range w.q {
		if w.usable(i) {
			w.strong = append(w.strong, i)
			exponent := max(math.Float32bits(w.x1[i])>>23&0xff, 1)
			strength[i] = math.Abs(float64(w.q[i])) / math.Float64frombits(uint64(exponent+1023-150)<<52)
		}
	}
	slices.SortStableFunc(w.strong, func(i, j int) int { return cmp.Compare(strength[j], strength[i]) })
	w.strong = w.strong[:min(len(w.strong), most)]
}

// shifted is the float32 whose bits are so many more.
func shifted(v float32, steps int) float32 {
	return math.Float32frombits(math.Float32bits(v) + uint32(steps))
}
