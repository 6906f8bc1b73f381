package blob

import "github.com/ulpack/ulpack/go/internal/search"

// Bounds of section 35: smaller tensors or rows do not repay the search for classes.
const (
	minClassLanes = 1 << 15
	minClassRows  = 16
	minRowLanes   = 16
	meanLanes     = 256 // lane values of a row that its mean is taken of
)

// classify looks for classes of rows (FORMAT.md section 35) where the tensor is coded as a residual to its reference.
// Whether they are used is decided when everything is counted.
func (e *Encoder) classify(s *Scratch) {
	h := &e.head
	if h.program != nil || h.spec.ContextPart != contextExponent || h.spec.Width > 32 || len(e.g.Shape) < 2 {
		return
	}
	lanes := h.codedLanes(&e.g)
	rho := e.g.Elements * uint64(e.g.DType.Components) / e.g.Shape[0]
	rows := lanes / rho
	if lanes < minClassLanes || rows < minClassRows || rho < minRowLanes || rows > maxList || !e.rowsDiffer(s) {
		return
	}
	list, n := search.Classes(e.rowMeans(rho, rows, s))
	if n > 1 {
		h.classes = &classes{n: n, rho: rho, entries: rows, list: list}
	}
}

// rowsDiffer is the test of section 35 on the sample.
func (e *Encoder) rowsDiffer(s *Scratch) bool {
	sample := &s.sample
	sample.ix = sized(sample.ix, sample.lanes)
	e.head.spec.Tokens(sample.ix, sample.target, sample.ref)
	return search.RowsDiffer(sample.ix, sampleRun)
}

// rowMeans returns the mean measure of each coded row, taken of its first lane values.
func (e *Encoder) rowMeans(rho, rows uint64, s *Scratch) []uint16 {
	means := make([]uint16, rows)
	n := int(min(rho, meanLanes))
	s.sample.ix = sized(s.sample.ix, n)
	size := uint64(e.g.laneBytes())
	for row := range rows {
		at := row
		if e.rows != nil {
			at = uint64(e.rows.list[row])
		}
		from := at * rho * size
		to := from + uint64(n)*size
		target, ref := e.target[from:to], e.in.Ref[from:to]
		if e.drop > 0 {
			target, ref = e.reduced(&s.looker.target, target, n), e.reduced(&s.looker.ref, ref, n)
		}
		e.head.spec.Tokens(s.sample.ix, target, ref)
		means[row] = search.RowMean(s.sample.ix)
	}
	return means
}
