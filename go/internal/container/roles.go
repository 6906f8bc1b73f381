package container

import (
	"slices"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// checkRoles checks the roles of all tensors as far as plans and directory say (FORMAT.md section 5.3), and fills in the
// dtypes of the slots; the blobs' headers say the rest.
func (d *Directory) checkRoles() error {
	places := d.places()
	place := func(i int) int {
		if places == nil {
			return i
		}
		return places[i]
	}
	var depth []uint8 // of the tensors whose values are decoded from values
	for p := range d.Tensors {
		i := d.at(p)
		e := &d.Tensors[i]
		if err := checkPlanRoles(e); err != nil {
			return err.At(i, -1)
		}
		for k := range e.Tail.Slots {
			s := &e.Tail.Slots[k]
			if s.Role == blob.RoleReference {
				s.DType = e.Geometry.DType
				continue
			}
			other := &d.Tensors[s.Tensor]
			s.DType = other.Geometry.DType
			switch {
			case s.Tensor == i || !slices.Equal(other.Geometry.Shape, e.Geometry.Shape):
				return fault.Corrupt("tail: tensor %d, of another shape, has role %d", s.Tensor, s.Role).At(i, -1)
			case s.Role == blob.RoleOtherReference && !other.HasReference:
				return fault.Corrupt("tail: the reference of tensor %d is needed, but it has none", s.Tensor).At(i, -1)
			case s.Role == blob.RoleValue && place(s.Tensor) > p:
				return fault.Corrupt("tail: tensor %d is needed, but it comes later", s.Tensor).At(i, -1)
			case s.Role == blob.RoleValue:
				if depth == nil {
					depth = make([]uint8, len(d.Tensors))
				}
				depth[i] = max(depth[i], depth[s.Tensor]+1)
				if depth[i] > maxDepth {
					return fault.Limit("tail: more than %d tensors are needed one after the other", maxDepth).At(i, -1)
				}
			}
		}
	}
	return d.checkReferences()
}

// references are the fingerprints of the references that blobs need, by tensor.
func (d *Directory) references() map[int]uint64 {
	found := make(map[int]uint64)
	for i := range d.Tensors {
		for _, s := range d.Tensors[i].Tail.Slots {
			switch s.Role {
			case blob.RoleReference:
				found[i] = s.Fingerprint
			case blob.RoleOtherReference:
				found[s.Tensor] = s.Fingerprint
			}
		}
	}
	return found
}

// checkReferences checks that blobs that need the same reference agree on its fingerprint.
func (d *Directory) checkReferences() error {
	var found map[int]uint64 // for tensors whose references others need
	for i := range d.Tensors {
		for _, s := range d.Tensors[i].Tail.Slots {
			if s.Role != blob.RoleOtherReference {
				continue
			}
			if found == nil {
				found = make(map[int]uint64)
			}
			known, ok := found[s.Tensor]
			if own := d.Tensors[s.Tensor].Tail.reference(); own != nil {
				known, ok = own.Fingerprint, true
			}
			if ok && known != s.Fingerprint {
				return fault.Corrupt("tail: two fingerprints for the reference of tensor %d", s.Tensor).At(i, -1)
			}
			found[s.Tensor] = s.Fingerprint
		}
	}
	return nil
}

// checkPlanRoles checks the roles of a plan as far as the plan alone says.
func checkPlanRoles(e *Entry) *fault.Error {
	t := &e.Tail
	switch t.Plan {
	case blob.PlanStored, blob.PlanConstant:
		if len(t.Slots) > 0 {
			return fault.Corrupt("tail: plan %q with a reference", blob.PlanName(t.Plan))
		}
	case blob.PlanIdentical:
		if len(t.Slots) != 1 || t.reference() == nil {
			return fault.Corrupt("tail: plan %q without a reference, or with other tensors", blob.PlanName(t.Plan))
		}
	}
	if t.reference() != nil && !e.HasReference {
		return fault.Corrupt("tail: a reference is needed that the directory does not name")
	}
	return nil
}
