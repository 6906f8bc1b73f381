package transform

import "github.com/ulpack/ulpack/go/internal/le"

// exponentContext computes contexts of part 1 (FORMAT.md section 9).
type exponentContext struct {
	shift      uint
	mask, base int
}

func (s *Spec) exponentContext() exponentContext {
	return exponentContext{uint(s.MantBits) & 63, 1<<s.ExpBits - 1, int(s.ExpBase)}
}

func (e *exponentContext) of(r uint64) int {
	return min(max(int(r>>(e.shift&63))&e.mask-e.base, 0), 31)
}

// contexts sets ix[i] to context<<8.
func contexts[T uint16 | uint32 | uint64](s *Spec, ix []uint16, ref []byte) {
	if s.ContextPart == ContextNone {
		clear(ix)
		return
	}
	c := s.exponentContext()
	for i := range ix {
		ix[i] = uint16(c.of(uint64(le.Load[T](ref, i))) << 8)
	}
}

// Clusters sets dst[i] to the cluster of lane value i: its context through contextMap, which has Contexts() entries. ref holds
// len(dst)*Width/8 bytes; it is not read for context part 0.
func (s *Spec) Clusters(dst []uint8, ref []byte, contextMap []uint8) {
	if s.ContextPart == ContextNone {
		fill(dst, contextMap[0])
		return
	}
	_ = ref[:len(dst)*s.Width/8]
	if s.ContextPart == ContextByte {
		table := (*[256]uint8)(contextMap)
		ref = ref[:len(dst)]
		for i, r := range ref {
			dst[i] = table[r]
		}
		return
	}
	table := (*[32]uint8)(contextMap)
	n := s.clustersKernel(dst, ref, table)
	dst, ref = dst[n:], ref[n*s.Width/8:]
	switch s.Width {
	case 16:
		clustersOf[uint16](s, dst, ref, table)
	case 32:
		clustersOf[uint32](s, dst, ref, table)
	default:
		clustersOf[uint64](s, dst, ref, table)
	}
}

func clustersOf[T uint16 | uint32 | uint64](s *Spec, dst []uint8, ref []byte, table *[32]uint8) {
	c := s.exponentContext()
	for i := range dst {
		dst[i] = table[c.of(uint64(le.Load[T](ref, i)))&31]
	}
}

func fill(dst []uint8, v uint8) {
	if v == 0 {
		clear(dst)
		return
	}
	for i := range dst {
		dst[i] = v
	}
}
