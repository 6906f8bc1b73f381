package blob

import "github.com/ulpack/ulpack/go/internal/search"

// Bounds of section 34.
const (
	minDecayRows  = 4
	minDecayLanes = 8
	exactShare    = 64 // one row in so many has to be exact
)

// findRows looks for rows that a program predicts exactly (FORMAT.md section 34): those that an optimizer only decayed. It
// returns nil if there are too few. If it is all rows, the program predicts the tensor, and exactRows has no list.
func (e *Encoder) findRows() *exactRows {
	d := &e.g.DType
	if e.in.Ref == nil || !d.Float || d.Components != 1 || d.Width != 16 && d.Width != 32 || len(e.g.Shape) < 2 {
		return nil
	}
	r := search.Rows{DType: d, Target: e.target, Ref: e.in.Ref, Rho: e.g.Elements / e.g.Shape[0], N: e.g.Shape[0]}
	if r.N < minDecayRows || r.Rho < minDecayLanes || r.N > maxList {
		return nil
	}
	p, ok := r.Decay()
	if !ok {
		return nil
	}
	p.Prepare(d, e.g.Elements)
	rows := &exactRows{rho: r.Rho, program: p, exact: make([]uint8, r.N)}
	exact := uint64(0)
	var memory []byte
	for i := range r.N {
		if r.Exact(&p, i, &memory) {
			rows.exact[i] = 1
			exact++
		}
	}
	if exact*exactShare < r.N {
		return nil
	}
	if side := rows.side(); checkList(r.N, len(side)) != nil {
		return nil
	}
	rows.place(&e.g)
	return rows
}
