package transform

import "github.com/ulpack/ulpack/go/internal/le"

// joinGeneric is Join. The tokens were checked.
func (s *Spec) joinGeneric(dst, ref []byte, tokens []uint8, raw *RawReader) bool {
	switch s.Width {
	case 8:
		joinDirect(s, dst, ref, tokens)
		return true
	case 16:
		return joinWide[uint16](s, dst, ref, tokens, raw)
	case 32:
		return joinWide[uint32](s, dst, ref, tokens, raw)
	default:
		return joinWide[uint64](s, dst, ref, tokens, raw)
	}
}

// joinDirect is the way back of map 2.
func joinDirect(s *Spec, dst, ref []byte, tokens []uint8) {
	p := residualOf[uint8](s)
	p.backward(dst, tokens, ref)
}

// joinWide is the way back of maps 0 and 1.
func joinWide[T uint16 | uint32 | uint64](s *Spec, dst, ref []byte, tokens []uint8, raw *RawReader) bool {
	p := residualOf[T](s)
	var z [block]T
	for len(tokens) > 0 {
		n, plane, tail, tailPos := raw.window(s, min(len(tokens), block))
		var planeBytes, tailBits int
		switch {
		case s.Map == MapLeading:
			planeBytes, tailBits = joinLeading(s, z[:n], tokens, plane, tail, tailPos)
		case s.Width-s.K > 56:
			tailBits = joinHybridLong(z[:n], tokens, tail, tailPos)
		default:
			tailBits = joinHybrid(s, z[:n], tokens, tail, tailPos)
			planeBytes = joinPlane(s, z[:n], plane)
		}
		if !raw.advance(planeBytes, tailBits) {
			return false
		}
		p.backward(dst, z[:n], ref)
		dst, ref, tokens = dst[n*s.Width/8:], ref[n*s.Width/8:], tokens[n:]
	}
	return true
}

// joinHybrid sets z to what is above the plane, where that is at most 56 bits, so that a window of 57 bits holds every tail. It returns
// the number of tail bits.
func joinHybrid[T uint16 | uint32 | uint64](s *Spec, z []T, tokens []uint8, tail []byte, tailPos int) int {
	table := &hybridTables[(s.Width-s.K)/8&7]
	pos := tailPos
	tokens = tokens[:len(z)]
	for i, token := range tokens {
		n := uint(table.n[token]) & 63
		z[i] = T(table.base[token] + peek(tail, pos)&(1<<n-1))
		pos += int(n)
	}
	return pos - tailPos
}

// joinHybridLong is joinHybrid for 64 bits and no plane: tails of up to 61 bits.
func joinHybridLong[T uint16 | uint32 | uint64](z []T, tokens []uint8, tail []byte, tailPos int) int {
	table := &hybridTables[8]
	pos := tailPos
	tokens = tokens[:len(z)]
	for i, token := range tokens {
		n := uint(table.n[token]) & 63
		z[i] = T(table.base[token] + peekLong(tail, pos)&(1<<n-1))
		pos += int(n)
	}
	return pos - tailPos
}

// joinPlane puts the plane below what z holds and returns the number of plane bytes.
func joinPlane[T uint16 | uint32 | uint64](s *Spec, z []T, plane []byte) int {
	planeBytes, k := s.K/8, uint(s.K)&63
	if planeBytes == 0 {
		return 0
	}
	mask := T(1)<<k - 1
	pos := 0
	for i, v := range z {
		z[i] = v<<k | T(le.Load64(plane, pos))&mask
		pos += planeBytes
	}
	return pos
}

// joinLeading sets z from tokens of map 1 and returns the numbers of plane bytes and tail bits.
func joinLeading[T uint16 | uint32 | uint64](s *Spec, z []T, tokens []uint8, plane, tail []byte, tailPos int) (planeBytes, tailBits int) {
	k, t, step := uint(s.K)&63, uint(s.T)&63, s.K/8
	planeMask := uint64(1)<<k - 1
	n := (t - k) & 63
	tailMask := uint64(1)<<n - 1
	pos := tailPos
	tokens = tokens[:len(z)]
	for i, token := range tokens {
		if token == 0 {
			z[i] = 0
			continue
		}
		v := (uint64(token)-1+s.Base)<<t | peekLong(tail, pos)&tailMask<<k
		pos += int(n)
		if step != 0 {
			v |= le.Load64(plane, planeBytes) & planeMask
			planeBytes += step
		}
		z[i] = T(v)
	}
	return planeBytes, pos - tailPos
}
