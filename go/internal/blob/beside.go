package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// beside is context part 4 (FORMAT.md sections 7 and 9): the context of a lane value is the exponent of the lane value at
// its place in another tensor.
type beside struct {
	slot uint8
	spec transform.Spec // of the other tensor, for Clusters
}

func newBeside(slot int, d *dtype.Info) *beside {
	b := &beside{slot: uint8(slot), spec: specFor(d)}
	b.spec.Predictor, b.spec.ContextPart = predictReference, contextExponent
	return b
}

func (c *beside) append(b []byte) []byte {
	return append(wire.AppendVarint(b, uint64(c.spec.ExpBase)), c.slot)
}

// readBeside reads the fields of context part 4.
func (r *headerReader) readBeside(h *header) error {
	base, slot := r.Varint(), r.U8()
	switch {
	case r.Err() != nil:
		return r.Err()
	case int(slot) >= len(r.slots):
		return fault.Corrupt("contexts from slot %d of %d", slot, len(r.slots))
	case h.drop > 0 || r.g.DType.Components != 1 || !givesContext(&r.slots[slot]):
		return fault.Corrupt("contexts for dtype %d from dtype %d", r.g.DType.Code, r.slots[slot].Code)
	}
	h.beside = newBeside(int(slot), &r.slots[slot])
	h.beside.spec.ExpBase = uint32(min(base, 1<<h.beside.spec.ExpBits))
	return nil
}

// givesContext reports whether contexts can come from the exponents of a dtype.
func givesContext(d *dtype.Info) bool { return d.Float && d.Width >= 16 && d.Components == 1 }
