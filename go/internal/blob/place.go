package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// headGuess is how much of a blob is read at first to find the header of a coded tensor.
const headGuess = 1 << 12

// openHeader reads the header, which ends before end, and returns where it ends.
func (d *Decoder) openHeader(source Source, end uint64) (at uint64, err error) {
	for guess := uint64(headGuess); ; guess *= 16 {
		n := min(guess, end)
		b, err := source(0, n)
		if err != nil {
			return 0, err
		}
		r := headerReader{Reader: wire.NewReader(b), g: &d.g, minor: d.record.Minor, slots: d.dtypes}
		d.head, err = r.read(d.record.Plan)
		if r.Ended() && n < end {
			continue
		}
		if err != nil {
			return 0, inBlob(err)
		}
		return uint64(r.Offset()), nil
	}
}

// placeBodies finds the chunk bodies, which fill the blob from byte at to end.
func (d *Decoder) placeBodies(at, end uint64) error {
	n := d.g.Chunks()
	if d.table == nil {
		if n == 1 {
			d.bodies = append(d.bodies, extent{at, end})
			at = end
		}
	} else {
		for _, length := range d.table.lengths {
			at += uint64(wire.VarintLen(length))
			if at > end || length > end-at {
				return fault.Corrupt("a chunk leaves its blob")
			}
			d.bodies = append(d.bodies, extent{at, at + length})
			at += length
		}
	}
	if at != end {
		return fault.Corrupt("%d bytes after the last chunk", end-at)
	}
	for j, x := range d.bodies {
		least := uint64(1)
		if rows := d.head.rows; rows != nil && rows.before[j] == rows.before[j+1] {
			least = 0
		}
		if size := x.to - x.from; size < least || size > d.maxBody(uint64(j)) || least == 0 && size > 0 {
			return fault.Corrupt("a chunk body of %d bytes", size)
		}
	}
	return nil
}

// maxBody bounds the body of chunk j: at most one word, the raw plane and the tail for each lane value.
func (d *Decoder) maxBody(j uint64) uint64 {
	from, to := d.g.Chunk(j)
	m := uint64(d.g.lanes(to - from))
	return bodyOverhead + 2*m + (to - from)
}

// MaxNBytes bounds the blob of a tensor.
func (g *Geometry) MaxNBytes() uint64 {
	const perChunk = 2*wire.MaxVarintLen + (1+MaxSlots)*8 + bodyOverhead
	const head = 1024 + 2*maxSide
	m := g.NBytes() / uint64(g.laneBytes())
	return head + g.NBytes() + 2*m + g.Chunks()*perChunk + tableLengthSize
}

// MaxCodedOverhead bounds how much more than its stored form a large blob may take: a chunk is stored where coding does not
// pay, but it has more in the chunk table, and there is the header.
func (g *Geometry) MaxCodedOverhead() uint64 {
	const perChunk = 2*wire.MaxVarintLen + MaxSlots*8 + 1
	const head = 1 << 16
	rows := uint64(0)
	if len(g.Shape) > 0 {
		rows = g.Shape[0]
	}
	return head + 2*min(rows, maxList) + g.Chunks()*perChunk
}

// bodyOverhead bounds what a body holds besides words, raw plane and tail.
const bodyOverhead = 1 + wire.MaxVarintLen + stateBytes*rans.MaxLanes + 1

// Extent is where chunk j lies in the blob, the length before a body included; empty if the blob holds nothing of it.
func (d *Decoder) Extent(j uint64) (from, to uint64) {
	if uint64(len(d.bodies)) <= j {
		return 0, 0
	}
	x := d.bodies[j]
	if IsCoded(d.record.Plan) && d.table != nil {
		x.from -= uint64(wire.VarintLen(d.table.lengths[j]))
	}
	return x.from, x.to
}

// Geometry is that of the value.
func (d *Decoder) Geometry() *Geometry { return &d.g }

// Stored reports whether the coded bytes of a chunk are its value.
func (d *Decoder) Stored() bool { return d.record.Plan == PlanStored }
