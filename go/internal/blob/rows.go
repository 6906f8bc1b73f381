package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/sidecoder"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// exactRows is what plan 4 adds to a coded tensor (FORMAT.md section 17): rows that a program predicts exactly. Nothing is
// coded of them; the lane values of the other rows are coded as if they were all that there is.
type exactRows struct {
	rho     uint64 // length of a row
	program predict.Program
	exact   []uint8  // by row: 1 or 0
	rest    uint64   // number of other rows
	list    []uint32 // the other rows
	before  []uint64 // by chunk: lane values of other rows in the chunks before, and the sum of all at the end
}

// rowContexts are the contexts of the flags of rows: after a row that is coded, after one that is not.
type rowContexts [2]sidecoder.Context

// append writes the fields that precede the header of the coded rows.
func (r *exactRows) append(b []byte) []byte {
	b = wire.AppendVarint(b, r.rho)
	b = r.program.Append(b)
	side := r.side()
	return append(wire.AppendVarint(b, uint64(len(side))), side...)
}

// side is the side string with the flags of the rows.
func (r *exactRows) side() []byte {
	var e sidecoder.Encoder
	var cx rowContexts
	before := uint8(0)
	for _, exact := range r.exact {
		e.Bit(&cx[before], uint(exact))
		before = exact
	}
	return e.Finish()
}

// readExactRows reads what append wrote.
func readExactRows(h *headerReader) (*exactRows, error) {
	r := &exactRows{rho: h.Varint()}
	p, err := h.readProgram()
	if err != nil {
		return nil, err
	}
	r.program = *p
	side := h.Bytes(h.Varint())
	if err := h.Err(); err != nil {
		return nil, err
	}
	rows, err := rowLength(r.rho, h.g.Elements*uint64(h.g.DType.Components))
	if err != nil {
		return nil, err
	}
	if err := checkList(rows, len(side)); err != nil {
		return nil, err
	}
	r.exact = make([]uint8, rows)
	var d sidecoder.Decoder
	d.Reset(side)
	var cx rowContexts
	before := uint8(0)
	for i := range r.exact {
		before = uint8(d.Bit(&cx[before]))
		r.exact[i] = before
	}
	if err := d.Finish(); err != nil {
		return nil, fault.Corrupt("rows: %v", err)
	}
	r.place(h.g)
	if r.rest == 0 || r.rest == rows {
		return nil, fault.Corrupt("%d of %d rows are coded", r.rest, rows)
	}
	return r, nil
}

// place counts the rows and finds where the coded lane values of each chunk begin.
func (r *exactRows) place(g *Geometry) {
	r.list = r.list[:0]
	for row, exact := range r.exact {
		if exact == 0 {
			r.list = append(r.list, uint32(row))
		}
	}
	r.rest = uint64(len(r.list))
	n := g.Chunks()
	r.before = make([]uint64, n+1)
	size := uint64(g.laneBytes())
	for j := range n {
		from, to := g.Chunk(j)
		sum := r.before[j]
		r.coded(from/size, to/size, func(from, to uint64) { sum += to - from })
		r.before[j+1] = sum
	}
}

// coded calls f for the parts of lane values first .. last that belong to coded rows, longest first in one piece.
func (r *exactRows) coded(first, last uint64, f func(from, to uint64)) {
	for at := first; at < last; {
		row := at / r.rho
		end := row + 1
		for end < uint64(len(r.exact)) && end*r.rho < last && r.exact[end] == r.exact[row] {
			end++
		}
		stop := min(end*r.rho, last)
		if r.exact[row] == 0 {
			f(at, stop)
		}
		at = stop
	}
}

// gather copies the coded lane values of src, which holds lane values first .. of size bytes, to the front of dst and returns
// them.
func (r *exactRows) gather(dst, src []byte, first uint64, size int) []byte {
	n := 0
	r.coded(first, first+uint64(len(src)/size), func(from, to uint64) {
		n += copy(dst[n:], src[int(from-first)*size:int(to-first)*size])
	})
	return dst[:n]
}

// scatter is the inverse of gather: it puts coded lane values to their places in dst.
func (r *exactRows) scatter(dst, src []byte, first uint64, size int) {
	n := 0
	r.coded(first, first+uint64(len(dst)/size), func(from, to uint64) {
		n += copy(dst[int(from-first)*size:int(to-first)*size], src[n:])
	})
}

// spans calls f for the ranges of lane values that the coded lane values from .. to are.
func (r *exactRows) spans(from, to uint64, f func(span)) {
	for at := from; at < to; {
		column := at % r.rho
		n := min(r.rho-column, to-at)
		start := uint64(r.list[at/r.rho])*r.rho + column
		f(span{start, start + n})
		at += n
	}
}
