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
