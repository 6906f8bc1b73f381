package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
)

// Input is a tensor to code, and what it may be coded against. Memory is only read.
type Input struct {
	Geometry  Geometry
	Target    []byte     // the value
	Ref       []byte     // its reference, nil for none
	Proposals []Proposal // predictions by programs, in order of preference
	Beside    *Slot      // whose exponents may give contexts, nil for none
	Fast      bool       // effort 1
}

// counter counts the chunks that one worker scans.
type counter struct {
	used      bool
	histogram model.Histogram
	leading   leadingCount
}

// NewEncoder prepares the coding of a value with workers that are numbered from 0 below workers.
func NewEncoder(in Input, workers int) *Encoder {
	e := &Encoder{counters: make([]*counter, workers)}
	e.start(in)
	return e
}

func (e *Encoder) start(in Input) {
	e.in, e.g, e.target = in, in.Geometry, in.Target
	n := int(e.g.Chunks())
	e.small = n <= SmallChunks
	e.plan, e.rows, e.drop, e.open, e.classless, e.tried = PlanStored, nil, 0, false, false, nil
	e.slots, e.dtypes = e.slots[:0], nil
	e.head = header{}
	e.same, e.unchanged = sized(e.same, n), sized(e.unchanged, n)
	e.notKept, e.fewChange = sized(e.notKept, n), false
	clear(e.notKept)
	e.totals = sized(e.totals, n)
	clear(e.same)
	clear(e.unchanged)
	e.table.hashes = sized(e.table.hashes, n)
	e.table.lengths = sized(e.table.lengths, n)
}

// forget drops what belongs to the caller.
func (e *Encoder) forget() {
	clear(e.slots[:cap(e.slots)])
	e.in, e.target, e.tried, e.model, e.head, e.rows = Input{}, nil, nil, nil, header{}, nil
}

// Chunks is the number of chunks.
func (e *Encoder) Chunks() int { return len(e.same) }

// become turns to a plan without a header.
func (e *Encoder) become(plan uint8) {
	e.plan = plan
	e.slots, e.table.slotHashes = e.slots[:0], e.table.slotHashes[:0]
	if plan == PlanIdentical {
		e.slots = append(e.slots, e.ownSlot())
		e.table.slotHashes = append(e.table.slotHashes, nil)
	}
}

func allTrue(list []bool) bool {
	for _, v := range list {
		if !v {
			return false
		}
	}
	return len(list) > 0
}

// Coded reports, after Build, whether the chunks are to be coded.
func (e *Encoder) Coded() bool { return IsCoded(e.plan) }

func (e *Encoder) multi() bool { return e.Chunks() > 1 }

// Plan is the plan of the blob.
func (e *Encoder) Plan() uint8 { return e.plan }

// NBytes is the size of the blob.
func (e *Encoder) NBytes() uint64 { return e.nbytes }

// Raw is chunk j of the value itself: its body when the plan is PlanStored.
func (e *Encoder) Raw(j int) []byte {
	from, to := e.g.Chunk(uint64(j))
	return e.target[from:to]
}
