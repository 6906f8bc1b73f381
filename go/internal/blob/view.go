package blob

import "github.com/ulpack/ulpack/go/internal/dtype"

// view is what the coder sees of a row of lane values of a chunk.
type view struct {
	first  uint64 // place of the first one among the coded lane values of the tensor
	lanes  int
	target []byte // nil when decoding
	ref    []byte // what predicts them; nil with predictor 0
	beside []byte // what gives their contexts with context part 4, else nil
}

// part is lane values from .. to of the view.
func (v *view) part(h *header, from, to int) view {
	cut := func(b []byte, size int) []byte {
		if b == nil {
			return nil
		}
		return b[from*size : to*size]
	}
	size := h.spec.Width / 8
	p := view{first: v.first + uint64(from), lanes: to - from, target: cut(v.target, size), ref: cut(v.ref, size)}
	if h.beside != nil {
		p.beside = cut(v.beside, h.beside.spec.Width/8)
	}
	return p
}

// looker makes views of the chunks of a tensor; it holds the memory of what is no part of a tensor.
type looker struct {
	prediction          []byte
	target, ref, beside []byte // gathered or narrowed
	contexts            []uint8
}

// tensorChunk is a chunk of a tensor, and of its slots.
type tensorChunk struct {
	g        *Geometry
	index    uint64
	elements int
	target   []byte // nil when decoding
	slots    [][]byte
	dtypes   []dtype.Info // of the slots
	own      int          // the slot of the tensor's own reference
}

// view is the view of a chunk under a header.
func (l *looker) view(h *header, c *tensorChunk) view {
	d := &c.g.DType
	v := view{lanes: c.elements * d.Components, target: c.target}
	v.first = c.index * uint64(d.ChunkElems()*d.Components)
	switch {
	case h.program != nil:
		l.prediction = sized(l.prediction, c.elements*d.ItemSize)
		h.program.Predict(l.prediction, c.slots, d, c.dtypes)
		v.ref = l.prediction
	case h.spec.Predictor == predictReference:
		v.ref = c.slots[c.own]
	}
	if h.beside != nil {
		v.beside = c.slots[h.beside.slot]
	}
	switch {
	case h.drop > 0:
		l.narrow(h, d, &v)
	case h.rows != nil:
		l.gather(h, d, c.index, &v)
	}
	return v
}

// narrow leaves low bits out (plan 5).
func (l *looker) narrow(h *header, d *dtype.Info, v *view) {
	reduce := func(memory *[]byte, b []byte) []byte {
		if b == nil {
			return nil
		}
		*memory = sized(*memory, v.lanes*h.spec.Width/8)
		narrow(*memory, b, d.Width, h.spec.Width, h.drop)
		return *memory
	}
	v.target, v.ref = reduce(&l.target, v.target), reduce(&l.ref, v.ref)
}

// gather leaves exact rows out (plan 4).
func (l *looker) gather(h *header, d *dtype.Info, index uint64, v *view) {
	rest := func(memory *[]byte, b []byte, size int) []byte {
		if b == nil {
			return nil
		}
		*memory = sized(*memory, len(b))
		return h.rows.gather(*memory, b, v.first, size)
	}
	size := d.Width / 8
	v.target, v.ref = rest(&l.target, v.target, size), rest(&l.ref, v.ref, size)
	if h.beside != nil {
		v.beside = rest(&l.beside, v.beside, h.beside.spec.Width/8)
	}
	v.first = h.rows.before[index]
	v.lanes = int(h.rows.before[index+1] - v.first)
}

// addContexts adds the contexts that Split does not know of.
func (l *looker) addContexts(h *header, ix []uint16, v *view) {
	switch {
	case h.classes != nil:
		h.classes.add(ix, v.first)
	case h.beside != nil:
		for i, context := range l.besideContexts(h, v) {
			ix[i] |= uint16(context) << 8
		}
	}
}

// besideContexts returns the contexts of context part 4, nil if there are none.
func (l *looker) besideContexts(h *header, v *view) []uint8 {
	if h.beside == nil {
		return nil
	}
	l.contexts = sized(l.contexts, v.lanes)
	h.beside.spec.Clusters(l.contexts, v.beside, everyContext[:exponentContexts])
	return l.contexts
}

// clusters sets dst to the clusters of the lane values of a view.
func (h *header) clusters(dst []uint8, v *view, contextMap []uint8) {
	switch {
	case h.classes != nil:
		h.classes.clusters(h, dst, v.first, v.ref, contextMap)
	case h.beside != nil:
		h.beside.spec.Clusters(dst, v.beside, contextMap)
	default:
		h.spec.Clusters(dst, v.ref, contextMap)
	}
}
