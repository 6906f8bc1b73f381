package blob

import (
	"bytes"
	"sync"

	"github.com/ulpack/ulpack/go/internal/model"
)

// scanBlock is the number of lane values that pass through the counting steps while they are in a near cache.
const scanBlock = 1 << 16

// Scan hashes chunk j, compares it with the reference and counts its tokens.
func (e *Encoder) Scan(j, worker int, s *Scratch) {
	from, to := e.g.Chunk(uint64(j))
	target := e.target[from:to]
	e.table.hashes[j] = Hash(target)
	var ref []byte
	if e.ref != nil {
		ref = e.ref[from:to]
		e.unchanged[j] = bytes.Equal(target, ref)
	}
	if e.plan != PlanCoded {
		return
	}
	if e.head.spec.Predictor == predictNothing {
		ref = nil
	} else if e.unchanged[j] {
		e.table.refHashes[j] = e.table.hashes[j]
		return
	} else {
		e.table.refHashes[j] = Hash(ref)
	}
	if e.tried == nil {
		e.count(e.counter(worker), s, j, target, ref)
	}
}

// count adds the tokens of a chunk to c. Where the final tokens are known and the tensor is small, the split is kept.
func (e *Encoder) count(c *counter, s *Scratch, j int, target, ref []byte) {
	spec := &e.head.spec
	if e.open {
		c.leading.add(spec, target)
		return
	}
	laneBytes := e.g.laneBytes()
	m := len(target) / laneBytes
	var keep *kept
	if e.small {
		keep = &s.kept[j]
		keep.start(m)
	} else {
		s.split.start(min(m, scanBlock))
	}
	for at := 0; at < m; at += scanBlock {
		from, to := at*laneBytes, min(at+scanBlock, m)*laneBytes
		var part []byte
		if ref != nil {
			part = ref[from:to]
		}
		if keep != nil {
			c.histogram.Add(keep.add(spec, target[from:to], part))
		} else {
			ix := s.split.ix[:(to-from)/laneBytes]
			spec.Tokens(ix, target[from:to], part)
			c.histogram.Add(ix)
		}
	}
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
			c.leading.reset(&e.head.spec)
		} else {
			c.histogram.Reset(e.head.spec.Contexts(), e.head.spec.Alphabet())
		}
	}
	return c
}

// counts adds up what the workers counted, and settles the range of token map 1.
func (e *Encoder) counts() *model.Histogram {
	if e.tried != nil {
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

// splitChunk returns the split of chunk j: the kept one, or a new one in the scratch memory.
func (e *Encoder) splitChunk(j int, s *Scratch) *kept {
	switch {
	case e.tried != nil:
		return &e.tried.kept
	case e.small && !e.open:
		return &s.kept[j]
	}
	from, to := e.g.Chunk(uint64(j))
	s.split.start(e.g.lanes(to - from))
	var ref []byte
	if e.head.spec.Predictor == predictReference {
		ref = e.ref[from:to]
	}
	s.split.add(&e.head.spec, e.target[from:to], ref)
	return &s.split
}
