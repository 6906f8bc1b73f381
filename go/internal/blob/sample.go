package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
)

// The sample of FORMAT.md section 21.
const (
	sampleWhole = 8192 // up to this many lane values the sample is all of them
	sampleRuns  = 64
	sampleRun   = 128
)

// span is a range of lane values.
type span struct{ from, to uint64 }

// sample holds the lane values on which the choice of plan rests, and the memory to judge them.
type sample struct {
	all   uint64 // lane values that are coded
	lanes int    // lane values of the sample
	spans []span // where they are in the tensor, in order

	target, ref []byte // ref nil: no reference

	targetMemory, refMemory []byte
	ix                      []uint16
	leading                 leadingCount
}

// take draws the sample of a tensor; rows says which rows are not coded, nil for none.
func (s *sample) take(g *Geometry, rows *exactRows) {
	s.spans = s.spans[:0]
	s.all = g.Elements * uint64(g.DType.Components)
	if rows != nil {
		s.all = rows.rest * rows.rho
	}
	if s.all <= sampleWhole {
		s.lanes = int(s.all)
		s.add(rows, 0, s.all)
		return
	}
	s.lanes = sampleRuns * sampleRun
	for b := range uint64(sampleRuns) {
		start := b * (s.all - sampleRun) / (sampleRuns - 1)
		s.add(rows, start, start+sampleRun)
	}
}

// add adds a range of coded lane values.
func (s *sample) add(rows *exactRows, from, to uint64) {
	if rows == nil {
		s.spans = append(s.spans, span{from, to})
		return
	}
	rows.spans(from, to, func(x span) { s.spans = append(s.spans, x) })
}

// collect returns the sample's lane values of size bytes of b, in memory unless they lie in one piece.
func (s *sample) collect(memory *[]byte, b []byte, size int) []byte {
	if len(s.spans) == 1 {
		return b[s.spans[0].from*uint64(size) : s.spans[0].to*uint64(size)]
	}
	*memory = sized(*memory, s.lanes*size)
	at := 0
	for _, x := range s.spans {
		at += copy((*memory)[at:], b[x.from*uint64(size):x.to*uint64(size)])
	}
	return *memory
}

// forget drops what belongs to the caller.
func (s *sample) forget() { s.target, s.ref = nil, nil }

// whole reports whether the sample is all that is coded.
func (s *sample) whole() bool { return uint64(s.lanes) == s.all }

// estimate is the estimate of section 21 for the tokens in h.
func (s *sample) estimate(h *model.Histogram, rawBits uint64) uint64 {
	return model.EstimateBits16(h, rawBits, s.all, uint64(s.lanes))
}
