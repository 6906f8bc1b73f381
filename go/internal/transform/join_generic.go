package transform

import "github.com/ulpack/ulpack/go/internal/le"

func joinDirect(s *Spec, dst, ref []byte, tokens []uint8) {
	p := residualOf[uint8](s)
	dst, ref = dst[:len(tokens)], ref[:len(tokens)]
	for i, z := range tokens {
		dst[i] = p.x(z, ref[i], 8)
	}
}

// joinHybrid is map 0 with at most 56 bits above the plane, so that a window of 57 bits holds every tail.
func joinHybrid[T uint16 | uint32 | uint64](s *Spec, dst, ref []byte, tokens []uint8, plane, tail []byte, planePos, tailPos int) (int, int, bool) {
	p, w := residualOf[T](s), widthOf[T]()
	k, planeBytes := uint(s.K)&63, s.K/8
	planeMask := T(1)<<k - 1
	table := &hybridTables[(s.Width-s.K)/8]
	last := s.Alphabet() - 1
	bad := 0
	for i, token := range tokens {
		n := int(table.n[token])
		y := table.base[token] + peek(tail, tailPos)&(1<<(n&63)-1)
		tailPos += n
		bad |= last - int(token)
		z := T(y)
		if planeBytes != 0 {
			z = z<<k | T(le.Load64(plane, planePos))&planeMask
			planePos += planeBytes
		}
		le.Store(dst, i, p.x(z, le.Load[T](ref, i), w))
	}
	return planePos, tailPos, bad >= 0
}

// joinHybrid64 is map 0 without a plane for 64-bit lanes: tails of up to 61 bits.
func joinHybrid64[T uint16 | uint32 | uint64](s *Spec, dst, ref []byte, tokens []uint8, _, tail []byte, planePos, tailPos int) (int, int, bool) {
	p, w := residualOf[T](s), widthOf[T]()
	table := &hybridTables[8]
	last := s.Alphabet() - 1
	bad := 0
	for i, token := range tokens {
		n := int(table.n[token])
		y := table.base[token] + peekLong(tail, tailPos)&(1<<(n&63)-1)
		tailPos += n
		bad |= last - int(token)
		le.Store(dst, i, p.x(T(y), le.Load[T](ref, i), w))
	}
	return planePos, tailPos, bad >= 0
}

// joinLeading is map 1.
func joinLeading[T uint16 | uint32 | uint64](s *Spec, dst, ref []byte, tokens []uint8, plane, tail []byte, planePos, tailPos int) (int, int, bool) {
	p, w := residualOf[T](s), widthOf[T]()
	k, t, planeBytes := uint(s.K)&63, uint(s.T)&63, s.K/8
	planeMask := uint64(1)<<k - 1
	n := int(t - k)
	tailMask := uint64(1)<<(n&63) - 1
	last := s.lastLeading()
	bad := 0
	for i, token := range tokens {
		if token == 0 {
			le.Store(dst, i, p.x(0, le.Load[T](ref, i), w))
			continue
		}
		bad |= last - int(token)
		z := (uint64(token)-1+s.Base)<<t | (peekLong(tail, tailPos)&tailMask)<<k
		tailPos += n
		if planeBytes != 0 {
			z |= le.Load64(plane, planePos) & planeMask
			planePos += planeBytes
		}
		le.Store(dst, i, p.x(T(z), le.Load[T](ref, i), w))
	}
	return planePos, tailPos, bad >= 0
}

// lastLeading is the largest token of map 1 that is in the alphabet and stands for values below 2^w.
func (s *Spec) lastLeading() int {
	limit := uint64(1) << (s.Width - s.T)
	if s.Base >= limit {
		return 0
	}
	return int(min(uint64(s.A)-1, limit-s.Base))
}
