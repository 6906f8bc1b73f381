package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Bits of the header's fields (FORMAT.md section 7): on the wire.
const (
	tokenMapShift = 4
	tablesShift   = 3
	tableLogShift = 5
	slopeShift    = 4
	minTableLog   = 8
	maxTableLog   = 12
	scaleOffset   = 32
	maxScale      = 160
	maxPlane      = 48
	maxSide       = 1 << 21 // more than its decoder can consume: about 2^20 decisions of at most 11 bits

	parametricTableLog = 12
)

// header is the header of a coded tensor.
type header struct {
	spec     transform.Spec
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

// paramSpec returns what the tables depend on.
func paramSpec(s *transform.Spec) model.ParamSpec {
	return model.ParamSpec{
		Map: s.Map, K: s.K, T: s.T, MantBits: s.MantBits, Base: s.Base, ContextPart: s.ContextPart, A: s.Alphabet(),
	}
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
	s := &h.spec
	b = append(b,
		s.Predictor|s.Map<<tokenMapShift,
		uint8(s.K/8)|h.tables<<tablesShift|uint8(h.tableLog-minTableLog)<<tableLogShift,
		s.ContextPart)
	if s.ContextPart == contextExponent {
		b = wire.AppendVarint(b, uint64(s.ExpBase))
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

// readModel decodes the tables that the header describes.
func (h *header) readModel() (*model.Tables, error) {
	spec := paramSpec(&h.spec)
	if h.tables == tablesParametric {
		return model.ParametricTables(h.shape, h.slope, h.scale, spec), nil
	}
	t, err := model.ReadSide(h.side, h.spec.Contexts(), h.spec.Alphabet(), h.tableLog)
	if err != nil {
		return nil, fault.Corrupt("tables: %v", err)
	}
	return t, nil
}
