package blob

import (
	"bytes"
	"sync"

	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/sparse"
)

// scanBlock is the number of lane values that pass through the counting steps while they are in a near cache.
const scanBlock = 1 << 16

// Scan hashes chunk j, compares it with the reference and its prediction, and counts its tokens.
func (e *Encoder) Scan(j, worker int, s *Scratch) {
	from, to := e.g.Chunk(uint64(j))
	target := e.target[from:to]
	e.table.hashes[j] = Hash(target)
	if e.in.Ref != nil {
		e.same[j] = bytes.Equal(target, e.in.Ref[from:to])
	}
	if !IsCoded(e.plan) {
		return
	}
	e.hashSlots(j)
	v := e.view(j, s)
	switch {
	case v.ref == nil:
		e.unchanged[j] = v.lanes == 0
	case e.isReference():
		e.unchanged[j] = e.same[j]
	default:
		e.unchanged[j] = bytes.Equal(v.target, v.ref)
	}
	if !e.unchanged[j] && e.tried == nil {
		e.count(e.counter(worker), s, j, &v)
	}
}

// isReference reports whether the lane values are those of the tensor and their prediction is its reference.
func (e *Encoder) isReference() bool { return e.head.program == nil && e.drop == 0 && e.rows == nil }

// hashSlots hashes the chunks of the slots.
func (e *Encoder) hashSlots(j int) {
	first, last := e.elements(j)
	for i := range e.slots {
		hashes := e.table.slotHashes[i]
		switch {
		case hashes == nil:
		case e.slots[i].Role == RoleReference && e.same[j]:
			hashes[j] = e.table.hashes[j]
		default:
			hashes[j] = Hash(e.slots[i].chunkOf(first, last))
		}
	}
}

// elements is the range of elements of chunk j.
func (e *Encoder) elements(j int) (first, last uint64) {
	size := uint64(e.g.DType.ChunkElems())
	first = uint64(j) * size
	return first, min(first+size, e.g.Elements)
}

// view is the view of chunk j.
func (e *Encoder) view(j int, s *Scratch) view {
	first, last := e.elements(j)
	s.chunks = s.chunks[:0]
	for i := range e.slots {
		s.chunks = append(s.chunks, e.slots[i].chunkOf(first, last))
	}
	return s.looker.view(&e.head, &tensorChunk{
		g: &e.g, index: uint64(j), elements: int(last - first), target: e.Raw(j), slots: s.chunks, dtypes: e.dtypes, own: e.own,
	})
}

// count adds the tokens of a chunk to c. Where the final tokens are known and the tensor is small, the split is kept.
func (e *Encoder) count(c *counter, s *Scratch, j int, v *view) {
	if e.open {
		c.leading.add(&e.head.spec, v.target, s.looker.besideContexts(&e.head, v))
		return
	}
	if e.fewChange && e.countChanges(c, s, j, v) {
		e.notKept[j] = true
		return
	}
	var keep *kept
	if e.small {
		keep = &s.kept[j]
		keep.start(v.lanes)
	} else {
		s.split.start(min(v.lanes, scanBlock))
	}
	for at := 0; at < v.lanes; at += scanBlock {
		part := v.part(&e.head, at, min(at+scanBlock, v.lanes))
		if keep != nil {
			c.histogram.Add(keep.add(&e.head, &part, &s.looker))
		} else {
			ix := s.split.ix[:part.lanes]
			e.head.spec.Tokens(ix, part.target, part.ref)
			s.looker.addContexts(&e.head, ix, &part)
			c.histogram.Add(ix)
		}
	}
}

// countChanges is count for a chunk of which few lane values differ from their prediction: only these are looked at closely.
// It is false, and has done nothing, if they are too many.
func (e *Encoder) countChanges(c *counter, s *Scratch, j int, v *view) (ok bool) {
	spec := &e.head.spec
	s.changed, ok = sparse.Changed(s.changed, v.target, v.ref, spec.Width, v.lanes/sparseTensor)
	if !ok {
		return false
	}
	contexts := e.head.contexts()
	s.clusters = sized(s.clusters, v.lanes+sparse.Slack)[:v.lanes]
	e.head.clusters(s.clusters, v, everyContext[:contexts])
	totals := s.sparse.Count(s.clusters, contexts)
	target, ref := s.sparse.Pick(v.target, v.ref, s.changed, spec.Width)
	s.split.start(len(s.changed))
	ix := s.split.ix[:len(s.changed)]
	spec.Tokens(ix, target, ref)
	c.histogram.Add(ix)
	e.totals[j] = append(e.totals[j][:0], totals...)
	for _, v := range ix {
		totals[v>>8]--
	}
	for context, n := range totals {
		c.histogram.AddCount(context, 0, uint64(n))
	}
	return true
}

var counters = sync.Pool{New: func() any { return new(counter) }}

// counter returns the counter of a worker, ready to count for the chosen candidate.
func (e *Encoder) counter(worker int) *counter {
	if e.counters[worker] == nil {
		e.counters[worker] = counters.Get().(*counter)
	}
	c := e.counters[worker]
	if !c.used {
		c.used = true
		if e.open {
			c.leading.reset(&e.head.spec, e.head.contexts())
		} else {
			c.histogram.Reset(e.head.contexts(), e.head.spec.Alphabet())
		}
	}
	return c
}

// counts adds up what the workers counted, and settles the range of token map 1.
func (e *Encoder) counts() *model.Histogram {
	if e.tried != nil && !e.unchanged[0] {
		return &e.tried.histogram
	}
	var sum *counter
	for _, c := range e.counters {
		switch {
		case c == nil || !c.used:
		case sum == nil:
			sum = c
		case e.open:
			sum.leading.merge(&c.leading)
		default:
			sum.histogram.Merge(&c.histogram)
		}
	}
	if sum == nil { // every chunk is unchanged
		sum = e.counter(0)
	}
	if e.open {
		sum.leading.settle(&e.head.spec, &sum.histogram)
	}
	return &sum.histogram
}

// releaseCounters makes the counters ready for the next tensor.
func (e *Encoder) releaseCounters() {
	for i, c := range e.counters {
		if c != nil {
			c.used = false
		}
		if !e.small && c != nil {
			counters.Put(c)
			e.counters[i] = nil
		}
	}
}

// splitChunk returns the split of chunk j, whose view is v: the kept one, or a new one in the scratch memory.
func (e *Encoder) splitChunk(j int, v *view, s *Scratch) *kept {
	switch {
	case e.tried != nil:
		return &e.tried.kept
	case e.small && !e.open && !e.notKept[j]:
		if e.classless {
			dropClasses(s.kept[j].ix)
		}
		return &s.kept[j]
	}
	s.split.start(v.lanes)
	s.split.add(&e.head, v, &s.looker)
	return &s.split
}

// dropClasses takes the classes off contexts.
func dropClasses(ix []uint16) {
	for i := range ix {
		ix[i] &= exponentContexts<<8 - 1
	}
}
