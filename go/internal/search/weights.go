package search

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// signs are the signs of a tensor and of its change since the reference, at 64 places.
type signs struct {
	below   uint64 // the value is below 0
	above   uint64 // the value is above 0
	falls   uint64 // the value is below the reference
	changed uint64
}

func signsOf(t *Tensor) (s signs) {
	last := t.elements() - 1
	for k := range 64 {
		at := 4 * (k * last / 63)
		x, r := float32At(t.Target, at), float32At(t.Ref, at)
		bit := uint64(1) << k
		if x < 0 {
			s.below |= bit
		}
		if x > 0 {
			s.above |= bit
		}
		if x < r {
			s.falls |= bit
		}
		if x != r {
			s.changed |= bit
		}
	}
	return s
}

func float32At(b []byte, at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
}

// verdict is what signs say about a step.
type verdict int

const (
	no verdict = iota
	perhaps
	yes
)

// against reports whether the tensor moves against the signs of a momentum: the share of the places in which it changed and the
// momentum is not 0 in which it does, of at least 16. Weight decay moves some the other way.
func (s *signs) against(momentum *signs) verdict {
	places := s.changed & (momentum.above | momentum.below)
	n := bits.OnesCount64(places)
	moved := bits.OnesCount64((s.falls ^ momentum.below) & places)
	switch {
	case n < 16:
		return perhaps
	case 4*moved >= 3*n:
		return yes
	case 8*moved >= 5*n:
		return perhaps
	}
	return no
}

// maxFree is how many tensors of a shape are considered as weights or momenta.
const maxFree = 512

// weights is the search for the tensors that a step may have changed.
type weights struct {
	free  map[string][]int // float32 tensors by shape that changed and are no moments that were replayed, in order
	signs map[int]*signs
	taken map[int]bool
	steps []step // that are to be tried
}

// step is a weight with what may have changed it: a pair of moments, or one of several momenta.
type step struct {
	weight  int
	pair    pair
	momenta []int
}

// maxMomenta is how many momenta are tried.
const maxMomenta = 4

// FindWeights finds, after every Replay, the weights that a step may have changed (section 31): by the moments of a pair that
// was replayed, or by a momentum. It returns the number of steps to try.
func (f *Finder) FindWeights() int {
	w := &f.weights
	w.free, w.signs, w.taken = make(map[string][]int), make(map[int]*signs), make(map[int]bool)
	var all []int
	for i := range f.tensors {
		t := &f.tensors[i]
		if !t.isFloat32() || f.isReplayed(i) || f.relations[i].Equal != None || t.unchanged() {
			continue
		}
		key := t.shapeKey()
		if list := w.free[key]; len(list) < maxFree {
			w.free[key] = append(list, i)
			all = append(all, i)
		}
	}
	for _, p := range f.pairs {
		if f.relations[p.second].Replayed {
			if i := f.moved(p); i != None {
				w.taken[i] = true
				w.steps = append(w.steps, step{weight: i, pair: p})
			}
		}
	}
	for _, i := range all {
		if !w.taken[i] {
			if momenta := f.movers(i); len(momenta) > 0 {
				w.steps = append(w.steps, step{weight: i, momenta: momenta})
			}
		}
	}
	return len(w.steps)
}

// unchanged reports whether the tensor is equal to its reference; it stops at the first difference.
func (t *Tensor) unchanged() bool { return string(t.Target) == string(t.Ref) }

// sign returns the signs of tensor i.
func (f *Finder) sign(i int) *signs {
	s := f.weights.signs[i]
	if s == nil {
		x := signsOf(&f.tensors[i])
		s = &x
		f.weights.signs[i] = s
	}
	return s
}

// moved is the weight that the first moment of a pair moved: of the tensors that are not excluded the one that shares the
// longest end of the name with the second moment; where none shares any, the first for which signs speak, or the only one.
func (f *Finder) moved(p pair) int {
	signs := f.sign(p.first)
	best, most := None, 0
	sure, only, n := None, None, 0
	for _, i := range f.weights.free[f.tensors[p.second].shapeKey()] {
		if f.weights.taken[i] {
			continue
		}
		v := f.sign(i).against(signs)
		if v == no {
			continue
		}
		if end := sameEnd(f.tensors[p.second].Name, f.tensors[i].Name); end > most || end == most && end > 0 && f.closer(p.second, i, best) {
			best, most = i, end
		}
		if v == yes && sure == None {
			sure = i
		}
		only = i
		n++
	}
	switch {
	case best != None:
		return best
	case sure != None:
		return sure
	case n == 1:
		return only
	}
	return None
}

// movers lists the momenta that may have moved weight i: the tensors whose signs say so, first those that share the longest
// end of the name, of several the closest.
func (f *Finder) movers(i int) (list []int) {
	signs := f.sign(i)
	for _, b := range f.weights.free[f.tensors[i].shapeKey()] {
		if b != i && signs.against(f.sign(b)) == yes {
			list = append(list, b)
		}
	}
	name := f.tensors[i].Name
	slices.SortFunc(list, func(a, b int) int {
		if x, y := sameEnd(name, f.tensors[a].Name), sameEnd(name, f.tensors[b].Name); x != y {
			return y - x
		}
		if f.closer(i, a, b) {
			return -1
		}
		return 1
	})
	return list[:min(len(list), maxMomenta)]
}

// Step tries step k (section 33).
func (f *Finder) Step(k int) {
	s := &f.weights.steps[k]
	r := &f.relations[s.weight]
	x := &f.tensors[s.weight]
	for _, b := range s.momenta {
		if p, ok := findSGD(x, &f.tensors[b]); ok {
			r.Buffer, r.Program = b, p
			return
		}
	}
	if len(s.momenta) > 0 {
		return
	}
	m, v := &f.tensors[s.pair.first], &f.tensors[s.pair.second]
	b2 := f.relations[s.pair.second].Program.Consts[0]
	if p, ok := findAdamW(x, m, v, b2, f.steps); ok {
		r.First, r.Second, r.Weight, r.Program = s.pair.first, s.pair.second, true, p
	}
}
