package blob

import (
	"sync"

	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/sparse"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// SmallChunks is the largest number of chunks of a small tensor: one worker codes it in a row.
const SmallChunks = 4

// Scratch is the memory that one worker needs; it grows to a few chunks and is reused for every tensor.
type Scratch struct {
	encoder Encoder // of small tensors
	decoder Decoder // of small tensors

	sample     sample
	candidates [2]candidate
	looker     looker
	chunks     [][]byte          // of the slots
	kept       [SmallChunks]kept // small tensors: what Scan split
	split      kept              // the chunk in work
	counter    counter           // small tensors
	changed    []uint32          // sparse chunks
	sparse     sparse.Scratch

	states   [rans.MaxLanes]uint32
	words    []byte
	tokens   []uint8
	clusters []uint8
	coded    []byte // decoded lane values that go to other places
	bodies   []byte // chunk bodies of a small tensor
	lanes    rans.Decoder
	rows     [][]uint16     // of coder
	coder    rans.DecTables // reduced tables
	chunk    []byte         // a decoded chunk that has no place in the output
}

// kept is a chunk, or the first part of one, after transform.Split.
type kept struct {
	ix  []uint16
	raw transform.RawWriter
}

// start makes room for a chunk of m lane values.
func (k *kept) start(m int) {
	k.ix = sized(k.ix, m)[:0]
	k.raw.Clear()
}

// add splits the next lane values and returns their contexts and tokens.
func (k *kept) add(h *header, v *view, l *looker) []uint16 {
	n := len(k.ix)
	k.ix = k.ix[:n+v.lanes]
	h.spec.Split(k.ix[n:], v.target, v.ref, &k.raw)
	l.addContexts(h, k.ix[n:], v)
	return k.ix[n:]
}

// sized returns a slice of n elements with unspecified content, b if it is large enough.
func sized[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// GetScratch takes a Scratch from the pool.
func GetScratch() *Scratch { return scratches.Get().(*Scratch) }

// Release gives s back to the pool.
func (s *Scratch) Release() {
	s.encoder.forget()
	s.decoder.forget()
	for i := range s.candidates {
		s.candidates[i].forget()
	}
	clear(s.chunks[:cap(s.chunks)])
	s.lanes.Words = nil
	scratches.Put(s)
}

// Decoder returns a Decoder whose memory is reused: one at a time for each Scratch.
func (s *Scratch) Decoder() *Decoder { return &s.decoder }

// Chunk returns memory for a decoded chunk of n bytes, with unspecified content.
func (s *Scratch) Chunk(n int) []byte {
	s.chunk = sized(s.chunk, n)
	return s.chunk
}

// Slots returns memory for n chunks of slots, all nil.
func (s *Scratch) Slots(n int) [][]byte {
	s.chunks = sized(s.chunks, n)
	clear(s.chunks)
	return s.chunks
}
