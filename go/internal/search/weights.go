package search

import (
	"encoding/binary"
	"math"
	"math/bits"
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

// against reports whether the tensor moves against the signs of a momentum, in seven of eight of the places in which it
// changed and the momentum is not 0; fewer than eight of them say nothing.
func (s *signs) against(momentum *signs) verdict {
	places := s.changed & (momentum.above | momentum.below)
	n := bits.OnesCount64(places)
	switch {
	case n < 8:
		return perhaps
	case 8*bits.OnesCount64((s.falls^momentum.below)&places) >= 7*n:
		return yes
	}
	return no
}

// weights is the search for the tensors that a step may have changed.
type weights struct {
	free  []int            // float32 tensors that changed and are no moments that were replayed
	ends  map[string]index // those of a shape by ends of their names
	list  map[string]index // those of a shape in order
	signs map[int]*signs
	taken []bool

	steps []step // that are to be tried
}

// step is a weight with what may have changed it: a pair of moments, or (second None) a momentum.
type step struct{ weight, first, second int }

// FindWeights finds, after every Replay, the weights that a step may have changed (section 31): by the moments of a pair that
// was replayed, or by a momentum. It returns the number of steps to try.
func (f *Finder) FindWeights() int {
	w := &f.weights
	w.ends, w.list, w.signs = make(map[string]index), make(map[string]index), make(map[int]*signs)
	w.taken = make([]bool, len(f.tensors))
	for i := range f.tensors {
		t := &f.tensors[i]
		if !t.isFloat32() || f.isReplayed(i) || f.relations[i].Equal != None || t.unchanged() {
			continue
		}
		key := t.shapeKey()
		if w.ends[key] == nil {
			w.ends[key], w.list[key] = make(index), make(index)
		}
		w.free = append(w.free, i)
		w.ends[key].addEnds(t.Name, i)
		w.list[key].add("", i)
	}
	for _, p := range f.pairs {
		if f.relations[p.second].Replayed {
			if i := f.moved(p.first, p.second); i != None {
				w.taken[i] = true
				w.steps = append(w.steps, step{i, p.first, p.second})
			}
		}
	}
	for _, i := range w.free {
		if w.taken[i] {
			continue
		}
		if b := f.mover(i); b != None {
			w.steps = append(w.steps, step{i, b, None})
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

// moved is the weight that the first moment m moved: of those that share the longest end of their names with the second moment
// v the closest, or else one of the shape; None if there is none.
func (f *Finder) moved(m, v int) int {
	signs := f.sign(m)
	return f.partner(v, func(i int) verdict {
		if f.weights.taken[i] {
			return no
		}
		return f.sign(i).against(signs)
	})
}

// mover is the momentum that moved weight i, likewise.
func (f *Finder) mover(i int) int {
	signs := f.sign(i)
	return f.partner(i, func(b int) verdict {
		if b == i {
			return no
		}
		return signs.against(f.sign(b))
	})
}

// partner is, of the free tensors of the shape of tensor i that may belong to it, the one that shares the longest end of its
// name, the closest of several; or else the first that does belong to it, or the only one that may.
func (f *Finder) partner(i int, belongs func(int) verdict) int {
	key := f.tensors[i].shapeKey()
	best := None
	f.weights.ends[key].sameEnd(f.tensors[i].Name, func(k int) bool {
		if belongs(k) == no {
			return false
		}
		if best == None || f.closer(i, k, best) {
			best = k
		}
		return true
	})
	if best != None {
		return best
	}
	only, n := None, 0
	for _, k := range f.weights.list[key][""] {
		switch belongs(k) {
		case yes:
			return k
		case perhaps:
			only = k
			n++
		}
	}
	if n == 1 {
		return only
	}
	return None
}

// Step tries step k (section 33).
func (f *Finder) Step(k int) {
	s := f.weights.steps[k]
	r := &f.relations[s.weight]
	x, m := &f.tensors[s.weight], &f.tensors[s.first]
	if s.second == None {
		if p, ok := findSGD(x, m); ok {
			r.Buffer, r.Program = s.first, p
		}
		return
	}
	b2 := f.relations[s.second].Program.Consts[0]
	if p, ok := findAdamW(x, m, &f.tensors[s.second], b2, f.steps); ok {
		r.First, r.Second, r.Weight, r.Program = s.first, s.second, true, p
	}
}
