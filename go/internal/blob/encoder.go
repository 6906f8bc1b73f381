package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
)

// counter counts the chunks that one worker scans.
type counter struct {
	used      bool
	histogram model.Histogram
	leading   leadingCount
}

// NewEncoder prepares the coding of a value with workers that are numbered from 0 below workers. target and ref (nil for
// none) have g.NBytes() bytes and are only read.
func NewEncoder(g Geometry, target, ref []byte, workers int) *Encoder {
	e := &Encoder{counters: make([]*counter, workers)}
	e.start(g, target, ref)
	return e
}

func (e *Encoder) start(g Geometry, target, ref []byte) {
	e.g, e.target, e.ref = g, target, ref
	n := int(g.Chunks())
	e.small = n <= SmallChunks
	e.plan, e.open, e.tried = PlanStored, false, nil
	e.unchanged = sized(e.unchanged, n)
	clear(e.unchanged)
	e.table.hashes = sized(e.table.hashes, n)
	e.table.refHashes = sized(e.table.refHashes, n)
	e.table.lengths = sized(e.table.lengths, n)
}

// forget drops what belongs to the caller.
func (e *Encoder) forget() { e.target, e.ref, e.tried, e.model = nil, nil, nil, nil }

// Chunks is the number of chunks.
func (e *Encoder) Chunks() int { return len(e.unchanged) }

func (e *Encoder) multi() bool { return len(e.unchanged) > 1 }

func (e *Encoder) allUnchanged() bool {
	for _, same := range e.unchanged {
		if !same {
			return false
		}
	}
	return len(e.unchanged) > 0
}

// Coded reports, after Build, whether the chunks are to be coded.
func (e *Encoder) Coded() bool { return e.plan == PlanCoded }

func (e *Encoder) needsReference() bool {
	return e.plan == PlanIdentical || e.plan == PlanCoded && e.head.spec.Predictor == predictReference
}

// Plan is the plan of the blob.
func (e *Encoder) Plan() uint8 { return e.plan }

// NBytes is the size of the blob.
func (e *Encoder) NBytes() uint64 { return e.nbytes }

// Raw is chunk j of the value itself: its body when the plan is PlanStored.
func (e *Encoder) Raw(j int) []byte {
	from, to := e.g.Chunk(uint64(j))
	return e.target[from:to]
}
