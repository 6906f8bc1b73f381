package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Bits of the header's fields (FORMAT.md section 7): on the wire.
const (
	tokenMapShift = 4
	tablesShift   = 3
	tableLogShift = 5
	slopeShift    = 4
	axisShift     = 7
	minTableLog   = 8
	maxTableLog   = 12
	scaleOffset   = 32
	maxScale      = 160
	maxPlane      = 48
	maxSide       = 1 << 26 // more than its decoder can consume

	parametricTableLog = 12
)

// header is what a coded blob holds before its chunks.
type header struct {
	rows *exactRows // plan 4
	drop int        // plan 5: low bits that are left out

	spec     transform.Spec   // predictor 2 counts as 1 here: the prediction stands for the reference
	program  *predict.Program // predictor 2
	classes  *classes         // context part 3, which counts as 1 in spec
	beside   *beside          // context part 4, which counts as 0 in spec
	tables   uint8
	tableLog int
	side     []byte // tables 0
	shape    uint8  // tables 1
	slope    uint8
	scale    int
}

// specFor returns the fields of a Spec that follow from the dtype.
func specFor(d *dtype.Info) transform.Spec {
	return transform.Spec{Width: d.Width, Float: d.Float, ExpBits: d.ExpBits, MantBits: d.MantBits}
}

// predictor and contextPart are the fields as they are on the wire.
func (h *header) predictor() uint8 {
	if h.program != nil {
		return predictProgram
	}
	return h.spec.Predictor
}

func (h *header) contextPart() uint8 {
	switch {
	case h.classes != nil:
		return contextClass
	case h.beside != nil:
		return contextBeside
	}
	return h.spec.ContextPart
}

// contexts is the number of contexts.
func (h *header) contexts() int {
	p := h.paramSpec()
	return p.Contexts()
}

// paramSpec returns what the tables depend on.
func (h *header) paramSpec() model.ParamSpec {
	s := &h.spec
	p := model.ParamSpec{
		Map: s.Map, K: s.K, T: s.T, MantBits: s.MantBits, Base: s.Base, ContextPart: h.contextPart(), A: s.Alphabet(),
	}
	if h.classes != nil {
		p.Classes = h.classes.n
	}
	return p
}

// setTables takes over the choice of tables.
func (h *header) setTables(t *model.Tables) {
	h.tableLog = t.TableLog
	h.tables, h.side = tablesOwn, nil
	h.shape, h.slope, h.scale = 0, 0, 0
	if t.Parametric {
		h.tables = tablesParametric
		h.shape, h.slope, h.scale = t.Shape, t.Slope, t.Scale
		return
	}
	h.side = t.WriteSide()
}

// append writes the header.
func (h *header) append(b []byte) []byte {
	if h.rows != nil {
		b = h.rows.append(b)
	}
	if h.drop > 0 {
		b = append(b, uint8(h.drop))
	}
	s := &h.spec
	b = append(b,
		h.predictor()|s.Map<<tokenMapShift,
		uint8(s.K/8)|h.tables<<tablesShift|uint8(h.tableLog-minTableLog)<<tableLogShift,
		h.contextPart())
	if h.program != nil {
		b = h.program.Append(b)
	}
	switch {
	case h.beside != nil:
		b = h.beside.append(b)
	case s.ContextPart == contextExponent:
		b = wire.AppendVarint(b, uint64(s.ExpBase))
		if h.classes != nil {
			b = h.classes.append(b)
		}
	}
	if s.Map == mapLeading {
		b = append(b, uint8(s.T))
		b = wire.AppendVarint(b, s.Base)
		b = append(b, uint8(s.A-1))
	}
	if h.tables == tablesParametric {
		return append(b, h.shape|h.slope<<slopeShift, uint8(h.scale+scaleOffset))
	}
	b = wire.AppendVarint(b, uint64(len(h.side)))
	return append(b, h.side...)
}
