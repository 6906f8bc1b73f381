package blob

import (
	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/predict"
)

// Slot is a tensor that another one is coded against (FORMAT.md section 5.3).
type Slot struct {
	Role   uint8
	Tensor int // of roles 1 and 2: which tensor of the file
	DType  dtype.Info
	Data   []byte // the whole value; as many elements as the tensor itself
}

// SlotRecord is what the rest of a file says about a slot.
type SlotRecord struct {
	Role        uint8
	Tensor      int // of roles 1 and 2
	DType       dtype.Info
	Fingerprint uint64 // of roles 0 and 2; a tensor of role 1 has its own record
}

// MaxSlots is the largest number of slots: those of a program, and one that gives contexts.
const MaxSlots = predict.MaxSlots + 1

// hashed reports whether the chunk table has the hashes of a slot: the other values of the file have their own.
func hashed(role uint8) bool { return role != RoleValue }

// chunkOf is the part of slot s for elements from .. to.
func (s *Slot) chunkOf(from, to uint64) []byte {
	size := uint64(s.DType.ItemSize)
	return s.Data[from*size : to*size]
}

// dtypesOf lists the dtypes of slots.
func dtypesOf(slots []Slot) []dtype.Info {
	list := make([]dtype.Info, len(slots))
	for i := range slots {
		list[i] = slots[i].DType
	}
	return list
}
