package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Detail describes a coded tensor for display (FORMAT.md annex A).
type Detail struct {
	Predictor   uint8 `json:"predictor"`
	TokenMap    uint8 `json:"token_map"`
	PlaneBits   int   `json:"plane_bits"`
	Tables      uint8 `json:"tables"`
	TableLog    int   `json:"table_log"`
	ContextPart uint8 `json:"context_part"`
	Clusters    int   `json:"clusters"`
	*Additions        // nil in a file of format version 1.0
}

// Additions is what format version 1.1 brought.
type Additions struct {
	Program     string `json:"program"`      // of predictor 2, or of the exact rows; empty if there is none
	Classes     int    `json:"classes"`      // of context part 3
	ExactRows   uint64 `json:"exact_rows"`   // of plan 4
	DroppedBits int    `json:"dropped_bits"` // of plan 5
}

func (h *header) detail(t *model.Tables) Detail {
	d := Detail{
		Predictor: h.predictor(), TokenMap: h.spec.Map, PlaneBits: h.spec.K, Tables: h.tables, TableLog: h.tableLog,
		ContextPart: h.contextPart(), Clusters: len(t.Freq), Additions: &Additions{DroppedBits: h.drop},
	}
	if t.Parametric {
		d.Clusters = h.contexts() // each context is its own
	}
	if h.program != nil {
		d.Program = h.program.Name()
	}
	if h.classes != nil {
		d.Classes = h.classes.n
	}
	if h.rows != nil {
		d.Program = h.rows.program.Name()
		d.ExactRows = uint64(len(h.rows.exact)) - h.rows.rest
	}
	return d
}

// ReadDetail reads the detail of a coded tensor from the first bytes of its blob; complete is false when they do not hold
// the whole header.
func ReadDetail(start []byte, g *Geometry, record *Record) (detail Detail, complete bool, err error) {
	r := headerReader{Reader: wire.NewReader(start), g: g, minor: record.Minor, slots: record.dtypes()}
	h, err := r.read(record.Plan)
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
	detail = h.detail(t)
	if record.Minor == 0 {
		detail.Additions = nil
	}
	return detail, true, nil
}

// dtypes lists the dtypes of the slots.
func (r *Record) dtypes() []dtype.Info {
	list := make([]dtype.Info, len(r.Slots))
	for i := range r.Slots {
		list[i] = r.Slots[i].DType
	}
	return list
}
