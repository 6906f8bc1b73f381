package container

import (
	"slices"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/schedule"
	"github.com/ulpack/ulpack/go/internal/search"
)

// effortFast is the effort that looks at no more than each tensor and its reference.
const effortFast = 1

// related is what the other tensors of the file may do for one.
type related struct {
	proposals []blob.Proposal
	beside    *blob.Slot
}

// relate finds out which tensors belong together, and orders the blobs so that each comes after those whose values it may
// need (FORMAT.md section 31).
func relate(d *Directory, data []Data, opt Options) ([]related, error) {
	if len(data) < 2 {
		return nil, nil
	}
	tensors := make([]search.Tensor, len(data))
	for i := range tensors {
		e := &d.Tensors[i]
		tensors[i] = search.Tensor{
			Name: e.Name, DType: e.Geometry.DType, Shape: e.Geometry.Shape, Target: data[i].Target, Ref: data[i].Ref,
		}
	}
	f := search.NewFinder(tensors)
	if err := each(f.Pairs(), f.Replay, opt); err != nil {
		return nil, err
	}
	if err := each(f.FindWeights(), f.Step, opt); err != nil {
		return nil, err
	}
	r := &relater{d: d, data: data, relations: f.Relations(), list: make([]related, len(data))}
	r.order()
	if r.moved {
		d.Order = r.places
	}
	for i := range r.list {
		r.propose(i)
	}
	return r.list, nil
}

// each runs step for 0 .. n-1 on the workers.
func each(n int, step func(int), opt Options) error {
	next := 0
	return schedule.Run(schedule.Options{Threads: opt.threads(), Window: opt.window(), Cancel: opt.Cancel}, func() (schedule.Step, bool) {
		if next == n {
			return schedule.Step{}, false
		}
		k := next
		next++
		return schedule.Step{Run: func(int) error { step(k); return nil }}, true
	})
}

// relater turns relations into an order and proposals.
type relater struct {
	d         *Directory
	data      []Data
	relations []search.Relation
	list      []related

	state  []uint8 // of each tensor: 0 new, 1 begun, 2 placed
	depth  []uint8
	places []int
	moved  bool
}

// use is what relations of a tensor are used for, the first that applies.
type use int

const (
	useNothing use = iota
	useEqual       // it is another tensor
	useWeight      // a step of AdamW gives it from the moments
	useSecond      // a step of Adam gives it, a second moment, from the first
	useBuffer      // a step of SGD gives it from the momentum
	useContext     // a first moment in the context of the second
)

func (r *relater) use(i int) use {
	x := &r.relations[i]
	switch {
	case x.Equal != search.None:
		return useEqual
	case x.Weight:
		return useWeight
	case x.Replayed && x.First != search.None:
		return useSecond
	case x.Buffer != search.None:
		return useBuffer
	case x.Second != search.None && !r.relations[x.Second].Replayed:
		return useContext
	}
	return useNothing
}

// needs lists the tensors whose values tensor i may need.
func (r *relater) needs(i int) (list []int) {
	x := &r.relations[i]
	use := r.use(i)
	if x.Source != search.None && use != useEqual {
		list = append(list, x.Source)
	}
	switch use {
	case useEqual:
		list = append(list, x.Equal)
	case useWeight:
		list = append(list, x.First, x.Second)
	case useSecond:
		list = append(list, x.First)
	case useBuffer:
		list = append(list, x.Buffer)
	case useContext:
		list = append(list, x.Second)
	}
	return list
}

// order places each tensor after those that it needs. A tensor that is needed and would close a circle, or is the end of a
// chain that is too long, is not needed any more.
func (r *relater) order() {
	r.state, r.depth = make([]uint8, len(r.list)), make([]uint8, len(r.list))
	r.places = make([]int, 0, len(r.list))
	for i := range r.list {
		r.place(i)
	}
	for place, i := range r.places {
		r.moved = r.moved || place != i
	}
}

func (r *relater) place(i int) {
	if r.state[i] != 0 {
		return
	}
	r.state[i] = 1
	for _, k := range r.needs(i) {
		if !slices.Contains(r.needs(i), k) {
			continue // it was of use only with one that was dropped
		}
		r.place(k)
		if r.state[k] == 1 || r.depth[k] == maxDepth {
			r.drop(i, k)
			continue
		}
		r.depth[i] = max(r.depth[i], r.depth[k]+1)
	}
	r.state[i] = 2
	r.places = append(r.places, i)
}

// drop forgets what tensor k is to tensor i.
func (r *relater) drop(i, k int) {
	x := &r.relations[i]
	for _, other := range []*int{&x.Equal, &x.Source, &x.First, &x.Second, &x.Buffer} {
		if *other == k {
			*other = search.None
		}
	}
	if x.Weight && (x.First == search.None || x.Second == search.None) {
		x.First, x.Second, x.Weight = search.None, search.None, false
	}
}

// propose lists the predictions that relations allow for tensor i, the most certain first.
func (r *relater) propose(i int) {
	x := &r.relations[i]
	add := func(p predict.Program, slots ...blob.Slot) {
		r.list[i].proposals = append(r.list[i].proposals, blob.Proposal{Program: p, Slots: slots, Exact: p.Code == predict.Copy})
	}
	use := r.use(i)
	if x.Source != search.None && use != useEqual {
		add(predict.Program{Code: predict.Cast}, r.value(x.Source))
	}
	switch use {
	case useEqual:
		add(predict.Program{Code: predict.Copy}, r.value(x.Equal))
	case useWeight:
		add(x.Program, r.own(i), r.value(x.First), r.value(x.Second))
	case useSecond:
		add(x.Program, r.own(i), r.value(x.First), r.reference(x.First))
	case useBuffer:
		add(x.Program, r.own(i), r.value(x.Buffer))
	case useContext:
		beside := r.value(x.Second)
		r.list[i].beside = &beside
	}
}

func (r *relater) slot(role uint8, i int, data []byte) blob.Slot {
	return blob.Slot{Role: role, Tensor: i, DType: r.d.Tensors[i].Geometry.DType, Data: data}
}

func (r *relater) own(i int) blob.Slot {
	s := r.slot(blob.RoleReference, 0, r.data[i].Ref)
	s.DType = r.d.Tensors[i].Geometry.DType
	return s
}

func (r *relater) value(i int) blob.Slot { return r.slot(blob.RoleValue, i, r.data[i].Target) }

func (r *relater) reference(i int) blob.Slot {
	return r.slot(blob.RoleOtherReference, i, r.data[i].Ref)
}
