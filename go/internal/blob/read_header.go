package blob

import (
	"errors"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// headerReader reads and checks the header of a coded blob.
type headerReader struct {
	wire.Reader
	g     *Geometry
	minor uint8        // of the file's format version
	slots []dtype.Info // of the blob
}

// read reads the header of a blob with this plan. It checks all but the side string of own tables.
func (r *headerReader) read(plan uint8) (*header, error) {
	h := new(header)
	d := r.g.DType
	switch plan {
	case PlanRows:
		rows, err := readExactRows(r)
		if err != nil {
			return nil, err
		}
		h.rows = rows
	case PlanNarrow:
		h.drop = int(r.U8())
		if r.Err() != nil {
			return nil, r.Err()
		}
		narrow, ok := narrowed(&d, h.drop)
		if !ok {
			return nil, fault.Corrupt("%d bits left out of dtype %d", h.drop, d.Code)
		}
		d = narrow
	}
	h.spec = specFor(&d)
	s := &h.spec
	first, second, part := r.U8(), r.U8(), r.U8()
	predictor := first & (1<<tokenMapShift - 1)
	s.Map = first >> tokenMapShift
	s.K = 8 * int(second&(1<<tablesShift-1))
	h.tables = second >> tablesShift & (1<<(tableLogShift-tablesShift) - 1)
	h.tableLog = minTableLog + int(second>>tableLogShift)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := r.checkKnown(h, predictor, part); err != nil {
		return nil, err
	}
	if err := r.readPredictor(h, predictor); err != nil {
		return nil, err
	}
	if err := r.readContextPart(h, part); err != nil {
		return nil, err
	}
	if err := h.checkFields(); err != nil {
		return nil, err
	}
	if s.Map == mapLeading {
		if err := h.readLeading(&r.Reader); err != nil {
			return nil, err
		}
	}
	if err := h.readTables(&r.Reader); err != nil {
		return nil, err
	}
	return h, r.Err()
}

// checkKnown tells whether the header uses what a later version brings.
func (r *headerReader) checkKnown(h *header, predictor, part uint8) error {
	switch {
	case predictor > predictProgram || predictor == predictProgram && r.minor < 1:
		return fault.Unsupported("predictor %d", predictor)
	case h.spec.Map > mapDirect:
		return fault.Unsupported("token map %d", h.spec.Map)
	case h.tables > tablesParametric:
		return fault.Unsupported("tables %d", h.tables)
	case part > contextBeside || part > contextByte && r.minor < 1:
		return fault.Unsupported("context part %d", part)
	}
	return nil
}

// readPredictor reads what the predictor brings.
func (r *headerReader) readPredictor(h *header, predictor uint8) error {
	switch {
	case predictor == predictProgram && h.drop > 0:
		return fault.Corrupt("a program for a narrow tensor")
	case predictor == predictProgram:
		p, err := r.readProgram()
		if err != nil {
			return err
		}
		h.program = p
		h.spec.Predictor = predictReference
	default:
		h.spec.Predictor = predictor
	}
	return nil
}

// readProgram reads a program and checks it against the slots.
func (r *headerReader) readProgram() (*predict.Program, error) {
	p, err := predict.Read(&r.Reader)
	if err != nil {
		var unknown predict.Unsupported
		switch {
		case errors.As(err, &unknown):
			return nil, fault.Unsupported("%v", err)
		case r.Err() != nil:
			return nil, r.Err()
		}
		return nil, fault.Corrupt("program: %v", err)
	}
	if err := p.Check(&r.g.DType, r.slots); err != nil {
		return nil, fault.Corrupt("%v", err)
	}
	return &p, nil
}

// readContextPart reads what the context part brings.
func (r *headerReader) readContextPart(h *header, part uint8) error {
	s := &h.spec
	wide := s.Float && s.Width >= 16
	switch {
	case (part == contextExponent || part == contextClass) && (s.Predictor != predictReference || !wide):
		return fault.Corrupt("exponent contexts without a reference of wide floats")
	case part == contextByte && (s.Predictor != predictReference || s.Width != 8):
		return fault.Corrupt("byte contexts without a reference of bytes")
	}
	s.ContextPart = part
	switch part {
	case contextExponent, contextClass:
		s.ContextPart = contextExponent
		// No exponent reaches this bound, so a larger base means the same.
		s.ExpBase = uint32(min(r.Varint(), 1<<s.ExpBits))
		if part == contextClass {
			return r.readClasses(h)
		}
	case contextBeside:
		s.ContextPart = contextNone
		return r.readBeside(h)
	}
	return r.Err()
}

// checkFields checks the combinations that section 7 allows.
func (h *header) checkFields() error {
	s := &h.spec
	wide := s.Width >= 16
	switch {
	case s.K > maxPlane || s.K >= s.Width || s.Map == mapDirect && s.K != 0:
		return fault.Corrupt("a raw plane of %d bits for lanes of %d", s.K, s.Width)
	case h.tableLog > maxTableLog || h.tables == tablesParametric && h.tableLog != parametricTableLog:
		return fault.Corrupt("tableLog %d", h.tableLog)
	case (s.Map == mapDirect) == wide:
		return fault.Corrupt("token map %d for lanes of %d bits", s.Map, s.Width)
	case s.Map == mapLeading && (s.Predictor != predictNothing || !s.Float):
		return fault.Corrupt("token map 1 for integers or with a reference")
	case h.classes != nil && h.tables != tablesOwn:
		return fault.Corrupt("classes without own tables")
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
		if h.classes != nil && r.Err() == nil {
			return checkList(h.classes.entries, len(h.side))
		}
		return nil
	}
	first := r.U8()
	h.shape, h.slope = first&(1<<slopeShift-1), first>>slopeShift
	h.scale = int(r.U8()) - scaleOffset
	if r.Err() != nil {
		return nil
	}
	switch {
	case h.slope != 0 && h.contextPart() != contextExponent:
		return fault.Corrupt("a slope without exponent contexts")
	case h.scale > maxScale:
		return fault.Corrupt("a scale of %d", h.scale)
	}
	if err := model.CheckParametric(h.shape, h.slope, h.paramSpec()); err != nil {
		return fault.Corrupt("%v", err)
	}
	return nil
}

// readModel decodes the tables that the header describes, and the list of classes with them.
func (h *header) readModel() (t *model.Tables, err error) {
	switch {
	case h.tables == tablesParametric:
		return model.ParametricTables(h.shape, h.slope, h.scale, h.paramSpec()), nil
	case h.classes != nil:
		t, err = model.ReadClassedSide(h.side, h.spec.Alphabet(), h.tableLog, h.classes.n, int(h.classes.entries))
		if err == nil {
			h.classes.list = t.ClassList
		}
	default:
		t, err = model.ReadSide(h.side, h.contexts(), h.spec.Alphabet(), h.tableLog)
	}
	if err != nil {
		return nil, fault.Corrupt("tables: %v", err)
	}
	return t, nil
}
