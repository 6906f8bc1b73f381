package search

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
		if !t.isFloat() || second[i] || !shapes[t.momentKey()] || !t.hasSigns(t.Target) {
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
	if !t.isFloat() || t.Ref == nil || t.hasSigns(t.Target) || t.hasSigns(t.Ref) {
		return false
	}
	places, size := samplePlaces(t.elements()), t.DType.ItemSize
	return !allZero(pick(t.Target, places, size)) && !allZero(pick(t.Ref, places, size))
}

// hasSigns reports whether a lane value of the sample has a sign bit; it stops at the first.
func (t *Tensor) hasSigns(b []byte) bool {
	size := t.DType.ItemSize
	for p := range eachPlace(t.elements()) {
		if b[p*size+size-1]&0x80 != 0 {
			return true
		}
	}
	return false
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

// isReplayed reports whether the tensor is a moment of a pair that was replayed.
func (f *Finder) isReplayed(i int) bool {
	r := &f.relations[i]
	return r.Replayed || r.Second != None && f.relations[r.Second].Replayed
}
