package search

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/predict"
)

// maxSources is how many tensors are tried as the source of one besides the one that its name tells.
const maxSources = 8

// findSources finds, for floats of 16 and 32 bits, a tensor of a wider dtype of which they are the rounding (section 31).
func (f *Finder) findSources() {
	type group struct {
		byWidth [3][]int // of 16, 32 and 64 bits
	}
	var widths int
	for i := range f.tensors {
		if f.tensors[i].isFloat() {
			widths |= f.tensors[i].DType.Width
		}
	}
	if widths&(widths-1) == 0 {
		return // all of one width
	}
	groups := make(map[string]*group)
	var order []*group
	for i := range f.tensors {
		t := &f.tensors[i]
		if !t.isFloat() {
			continue
		}
		key := t.shapeKey()
		g := groups[key]
		if g == nil {
			g = new(group)
			groups[key] = g
			order = append(order, g)
		}
		w := t.DType.Width >> 5
		g.byWidth[w] = append(g.byWidth[w], i)
	}
	taken := make([]bool, len(f.tensors))
	for _, g := range order {
		for narrow := range 2 {
			for wide := narrow + 1; wide < 3; wide++ {
				f.matchSources(g.byWidth[narrow], g.byWidth[wide], taken)
			}
		}
	}
}

// matchSources finds sources among wide for the tensors of narrow that have none.
func (f *Finder) matchSources(narrow, wide []int, taken []bool) {
	if len(narrow) == 0 || len(wide) == 0 {
		return
	}
	x := make(index)
	for _, i := range wide {
		x.addEnds(f.tensors[i].Name, i)
	}
	for _, i := range narrow {
		if f.relations[i].Source != None || f.relations[i].Equal != None {
			continue
		}
		t := &f.tensors[i]
		best := None
		x.ends(t.Name, func(k int) bool {
			if taken[k] {
				return false
			}
			if best == None || f.closer(i, k, best) {
				best = k
			}
			return true
		})
		if best == None || !f.isRounding(i, best) {
			best = None
			tried := 0
			for _, k := range wide {
				if taken[k] {
					continue
				}
				if tried++; tried > maxSources {
					break
				}
				if f.isRounding(i, k) {
					best = k
					break
				}
			}
		}
		if best != None {
			f.relations[i].Source = best
			taken[best] = true
		}
	}
}

// closer reports whether candidate a is closer to tensor i than candidate b: by name, then by place, then the earlier one.
func (f *Finder) closer(i, a, b int) bool {
	name := f.tensors[i].Name
	if x, y := alike(name, f.tensors[a].Name), alike(name, f.tensors[b].Name); x != y {
		return x > y
	}
	if x, y := abs(a-i), abs(b-i); x != y {
		return x < y
	}
	return a < b
}

func abs(v int) int { return max(v, -v) }

// isRounding reports whether tensor i is tensor k rounded, in seven of eight lane values of the sample and already in as many
// of its first sixteen.
func (f *Finder) isRounding(i, k int) bool {
	t, source := &f.tensors[i], &f.tensors[k]
	cast := predict.Program{Code: predict.Cast}
	share := func(places []int) bool {
		target, from := pick(t.Target, places, t.DType.ItemSize), pick(source.Target, places, source.DType.ItemSize)
		predicted := make([]byte, len(target))
		cast.Predict(predicted, [][]byte{from}, &t.DType, []dtype.Info{source.DType})
		size := t.DType.ItemSize
		same := 0
		for at := 0; at < len(target); at += size {
			if string(target[at:at+size]) == string(predicted[at:at+size]) {
				same++
			}
		}
		return 8*same >= 7*len(places)
	}
	places := samplePlaces(t.elements())
	return share(places[:gateLanes]) && share(places)
}
