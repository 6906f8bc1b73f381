package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
)

// CheckReference checks chunk j of the reference, where the tensor needs one.
func (d *Decoder) CheckReference(j uint64, ref []byte) error {
	if !d.record.NeedsReference {
		return nil
	}
	h := Hash(ref)
	var ok bool
	switch {
	case d.table == nil:
		ok = d.g.fingerprintOf(func(uint64) uint64 { return h }) == d.record.RefFingerprint
	case d.record.Plan == PlanIdentical:
		ok = h == d.table.hashes[j]
	default:
		ok = h == d.table.refHashes[j]
	}
	if !ok {
		return fault.Reference("not the tensor that the file was made against (chunk %d differs)", j)
	}
	return nil
}

// checkValue checks the hash h of chunk j of the value.
func (d *Decoder) checkValue(j, h uint64) error {
	ok := true
	switch {
	case d.record.Plan == PlanConstant: // CheckConstant
	case d.table == nil:
		ok = d.g.fingerprintOf(func(uint64) uint64 { return h }) == d.record.Fingerprint
	default:
		ok = h == d.table.hashes[j]
	}
	if !ok {
		return fault.Corrupt("the decoded chunk %d does not have the recorded hash", j)
	}
	return nil
}

// CheckConstant checks the fingerprint of a constant tensor; the other plans are checked chunk by chunk.
func (d *Decoder) CheckConstant(s *Scratch) error {
	n := d.g.Chunks()
	if d.record.Plan != PlanConstant || n == 0 {
		return nil
	}
	hash := func(j uint64) uint64 {
		from, to := d.g.Chunk(j)
		s.chunk = sized(s.chunk, int(to-from))
		repeat(s.chunk, d.constant)
		return Hash(s.chunk)
	}
	full, last := hash(0), hash(n-1)
	got := d.g.fingerprintOf(func(j uint64) uint64 {
		if j < n-1 {
			return full
		}
		return last
	})
	if got != d.record.Fingerprint {
		return fault.Corrupt("the constant does not have the recorded fingerprint")
	}
	return nil
}
