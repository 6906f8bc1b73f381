package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/wire"
)

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
