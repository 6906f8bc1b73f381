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

// readHeader reads and checks the header of a coded tensor of dtype d.
func readHeader(r *wire.Reader, d *dtype.Info) (*header, error) {
	h := &header{spec: specFor(d)}
	s := &h.spec
	first, second := r.U8(), r.U8()
	s.Predictor, s.Map = first&(1<<tokenMapShift-1), first>>tokenMapShift
	s.K = 8 * int(second&(1<<tablesShift-1))
	h.tables = second >> tablesShift & (1<<(tableLogShift-tablesShift) - 1)
	h.tableLog = minTableLog + int(second>>tableLogShift)
	s.ContextPart = r.U8()
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := h.checkFields(); err != nil {
		return nil, err
	}
	if s.ContextPart == contextExponent {
		// No exponent reaches this bound, so a larger base means the same.
		s.ExpBase = uint32(min(r.Varint(), 1<<s.ExpBits))
	}
	if s.Map == mapLeading {
		if err := h.readLeading(r); err != nil {
			return nil, err
		}
	}
	if err := h.readTables(r); err != nil {
		return nil, err
	}
	return h, r.Err()
}

// checkFields checks the combinations that section 7 allows.
func (h *header) checkFields() error {
	s := &h.spec
	wide := s.Width >= 16
	switch {
	case s.Predictor > predictReference:
		return fault.Unsupported("predictor %d", s.Predictor)
	case s.Map > mapDirect:
		return fault.Unsupported("token map %d", s.Map)
	case h.tables > tablesParametric:
		return fault.Unsupported("tables %d", h.tables)
	case s.ContextPart > contextByte:
		return fault.Unsupported("context part %d", s.ContextPart)
	case s.K > maxPlane || s.K >= s.Width || s.Map == mapDirect && s.K != 0:
		return fault.Corrupt("a raw plane of %d bits for lanes of %d", s.K, s.Width)
	case h.tableLog > maxTableLog || h.tables == tablesParametric && h.tableLog != parametricTableLog:
		return fault.Corrupt("tableLog %d", h.tableLog)
	case (s.Map == mapDirect) == wide:
		return fault.Corrupt("token map %d for lanes of %d bits", s.Map, s.Width)
	case s.Map == mapLeading && (s.Predictor != predictNothing || !s.Float):
		return fault.Corrupt("token map %d with predictor %d, or for integers", s.Map, s.Predictor)
	case s.ContextPart == contextExponent && (s.Predictor != predictReference || !s.Float || !wide):
		return fault.Corrupt("exponent contexts without a reference of wide floats")
	case s.ContextPart == contextByte && (s.Predictor != predictReference || wide):
		return fault.Corrupt("byte contexts without a reference of bytes")
	}
	return nil
}

// readLeading reads the fields of token map 1.
func (h *header) readLeading(r *wire.Reader) error {
	s := &h.spec
	s.T = int(r.U8())
	s.Base = r.Varint()
	s.A = 1 + int(r.U8())
	if r.Err() != nil {
		return nil
	}
	if s.T < max(s.K, 1) || s.T >= s.Width {
		return fault.Corrupt("token map 1 cuts at bit %d", s.T)
	}
	if s.A < 2 {
		return fault.Corrupt("token map 1 with one token")
	}
	// From this bound on every value is too large, so a larger base means the same.
	s.Base = min(s.Base, 1<<(s.Width-s.T))
	return nil
}

// readTables reads the fields that the kind of tables brings.
func (h *header) readTables(r *wire.Reader) error {
	if h.tables == tablesOwn {
		n := r.Varint()
		if n > maxSide {
			return fault.Corrupt("a side string of %d bytes", n)
		}
		h.side = r.Bytes(n)
		return nil
	}
	first := r.U8()
	h.shape, h.slope = first&(1<<slopeShift-1), first>>slopeShift
	h.scale = int(r.U8()) - scaleOffset
	if r.Err() != nil {
		return nil
	}
	switch {
	case h.slope != 0 && h.spec.ContextPart != contextExponent:
		return fault.Corrupt("a slope without exponent contexts")
	case h.scale > maxScale:
		return fault.Corrupt("a scale of %d", h.scale)
	}
	if err := model.CheckParametric(h.shape, h.slope, paramSpec(&h.spec)); err != nil {
		return fault.Corrupt("%v", err)
	}
	return nil
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

// Detail describes a coded tensor for display (FORMAT.md annex A).
type Detail struct {
	Predictor   uint8 `json:"predictor"`
	TokenMap    uint8 `json:"token_map"`
	PlaneBits   int   `json:"plane_bits"`
	Tables      uint8 `json:"tables"`
	TableLog    int   `json:"table_log"`
	ContextPart uint8 `json:"context_part"`
	Clusters    int   `json:"clusters"`
}

func (h *header) detail(t *model.Tables) Detail {
	d := Detail{
		Predictor: h.spec.Predictor, TokenMap: h.spec.Map, PlaneBits: h.spec.K, Tables: h.tables, TableLog: h.tableLog,
		ContextPart: h.spec.ContextPart, Clusters: len(t.Freq),
	}
	if t.Parametric {
		d.Clusters = h.spec.Contexts() // each context is its own
	}
	return d
}

// ReadDetail reads the detail of a coded tensor from the first bytes of its blob; complete is false when they do not hold
// the whole header.
func ReadDetail(start []byte, d *dtype.Info) (detail Detail, complete bool, err error) {
	r := wire.NewReader(start)
	h, err := readHeader(&r, d)
	if r.Ended() {
		return detail, false, err
	}
	if err != nil {
		return detail, true, err
	}
	t, err := h.readModel()
	if err != nil {
		return detail, true, err
	}
	return h.detail(t), true, nil
}
