package search

import "slices"

// findPairs finds second moments and the first moments that belong to them (section 31): siblings by name, of which one has
// no sign bit and the other has some.
func (f *Finder) findPairs() {
	second := make([]bool, len(f.tensors))
	shapes := make(map[string]bool) // of second moments
	for i := range f.tensors {
		if f.tensors[i].isSecondMoment() {
			second[i] = true
			shapes[f.tensors[i].momentKey()] = true
		}
	}
	if len(shapes) == 0 {
		return
	}
	byShape := make(map[string]index)
	for i := range f.tensors {
		t := &f.tensors[i]
		if !t.isFloat() || second[i] || !shapes[t.momentKey()] || !t.hasSigns() {
			continue
		}
		key := t.momentKey()
		if byShape[key] == nil {
			byShape[key] = make(index)
		}
		byShape[key].addHoles(t.Name, i)
	}
	for v := range f.tensors {
		if !second[v] {
			continue
		}
		best := None
		byShape[f.tensors[v].momentKey()].siblings(f.tensors[v].Name, func(m int) {
			if f.relations[m].Second == None && (best == None || f.closer(v, m, best)) {
				best = m
			}
		})
		if best != None {
			f.relations[v].First, f.relations[best].Second = best, v
			f.pairs = append(f.pairs, pair{best, v})
		}
	}
}

// momentKey is the same for tensors that may be moments of one weight.
func (t *Tensor) momentKey() string { return t.DType.Name + t.shapeKey() }

// isSecondMoment reports whether no lane value of the sample has a sign bit, in the value or its reference, and not all are
// 0.
func (t *Tensor) isSecondMoment() bool {
	if !t.isFloat() || t.Ref == nil {
		return false
	}
	places := samplePlaces(t.elements())
	return t.signs(t.Target, places) == 0 && t.signs(t.Ref, places) == 0 &&
		!allZero(pick(t.Target, places, t.DType.ItemSize)) && !allZero(pick(t.Ref, places, t.DType.ItemSize))
}

// hasSigns reports whether a lane value of the sample has a sign bit.
func (t *Tensor) hasSigns() bool { return t.signs(t.Target, samplePlaces(t.elements())) != 0 }

// signs returns the sign bit if a lane value at places has one; it stops at the first.
func (t *Tensor) signs(b []byte, places []int) byte {
	size := t.DType.ItemSize
	for _, p := range places {
		if top := b[p*size+size-1] & 0x80; top != 0 {
			return top
		}
	}
	return 0
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// Pairs is the number of pairs of moments.
func (f *Finder) Pairs() int { return len(f.pairs) }

// Replay looks whether the second moment of pair k follows from the first one by a step of Adam (section 33).
func (f *Finder) Replay(k int) {
	p := f.pairs[k]
	m, v := &f.tensors[p.first], &f.tensors[p.second]
	if !m.isFloat32() || !v.isFloat32() {
		return
	}
	if program, ok := findAdamV(v, m); ok {
		r := &f.relations[p.second]
		r.Program, r.Replayed = program, true
	}
}

// FindWeights finds, after every Replay, the weights that a step may have changed: those of the pairs that were replayed,
// and those with a momentum. It returns their number.
func (f *Finder) FindWeights() int {
	var free []int // that may be weights
	for i := range f.tensors {
		r := &f.relations[i]
		if f.tensors[i].isFloat32() && r.First == None && r.Second == None && r.Equal == None && !f.tensors[i].unchanged() {
			free = append(free, i)
		}
	}
	byShape := make(map[string][]int)
	f.ends, f.groups = make(map[string]index), make(map[string][]group)
	for _, i := range free {
		key := f.tensors[i].shapeKey()
		byShape[key] = append(byShape[key], i)
		if f.ends[key] == nil {
			f.ends[key] = make(index)
		}
		f.ends[key].addEnds(f.tensors[i].Name, i)
		f.addToGroup(key, i)
	}
	f.taken = make([]bool, len(f.tensors))
	taken := f.taken
	for _, p := range f.pairs {
		if !f.relations[p.second].Replayed {
			continue
		}
		key := f.tensors[p.second].shapeKey()
		w := f.nearest(p.second, f.ends[key], byShape[key], taken)
		if w != None {
			taken[w] = true
			r := &f.relations[w]
			r.First, r.Second, r.Weight = p.first, p.second, true
			f.weights = append(f.weights, w)
		}
	}
	for _, w := range free {
		if taken[w] {
			continue
		}
		key := f.tensors[w].shapeKey()
		if len(byShape[key]) > 1 {
			f.weights = append(f.weights, w) // its momentum is found by trying
		}
	}
	return len(f.weights)
}

// addToGroup adds a tensor to the group of its last component.
func (f *Finder) addToGroup(key string, i int) {
	last := lastComponent(f.tensors[i].Name)
	for k := range f.groups[key] {
		if g := &f.groups[key][k]; g.last == last {
			g.members = append(g.members, i)
			return
		}
	}
	f.groups[key] = append(f.groups[key], group{last, []int{i}})
}

// unchanged reports whether the tensor is equal to its reference; it stops at the first difference.
func (t *Tensor) unchanged() bool { return string(t.Target) == string(t.Ref) }

// nearest is the free tensor that shares the longest end of the name with tensor i, the closest of several, or, where none
// shares any, the first that is not taken.
func (f *Finder) nearest(i int, ends index, list []int, taken []bool) int {
	best := None
	ends.sameEnd(f.tensors[i].Name, func(k int) bool {
		if k == i || taken[k] {
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
	for _, k := range list {
		if k != i && !taken[k] {
			return k
		}
	}
	return None
}

// Step looks for the step that changed weight k (section 33).
func (f *Finder) Step(k int) {
	w := f.weights[k]
	r := &f.relations[w]
	if r.Weight {
		p, ok := findAdamW(&f.tensors[w], &f.tensors[r.First], &f.tensors[r.Second], f.relations[r.Second].Program.Consts[0], f.steps)
		if !ok {
			r.First, r.Second, r.Weight = None, None, false
			return
		}
		r.Program = p
		return
	}
	key := f.tensors[w].shapeKey()
	for _, b := range f.buffers(w, key) {
		if p, ok := findSGD(&f.tensors[w], &f.tensors[b]); ok {
			r.Buffer, r.Program = b, p
			return
		}
	}
}

// buffers lists the tensors that are tried as the momentum of a weight: the nearest by name, and the one at its place among
// those of its shape with another last component, where these are as many.
func (f *Finder) buffers(w int, key string) (list []int) {
	if b := f.nearest(w, f.ends[key], nil, f.taken); b != None {
		list = append(list, b)
	}
	groups := f.groups[key]
	own := lastComponent(f.tensors[w].Name)
	for _, g := range groups {
		if g.last == own {
			rank, _ := slices.BinarySearch(g.members, w)
			for _, other := range groups {
				if other.last != own && len(other.members) == len(g.members) {
					return append(list, other.members[rank])
				}
			}
		}
	}
	return list
}

// group is the tensors of a shape whose names have the same last component, in order.
type group struct {
	last    string
	members []int
}

func lastComponent(name string) string {
	if parts := components(name); len(parts) > 0 {
		return parts[len(parts)-1]
	}
	return ""
}
