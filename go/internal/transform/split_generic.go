package transform

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

// splitGeneric is Split, or Tokens without raw.
func (s *Spec) splitGeneric(ix []uint16, target, ref []byte, raw *RawWriter) bool {
	switch s.Width {
	case 8:
		return splitDirect(s, ix, target, ref)
	case 16:
		return splitWide[uint16](s, ix, target, ref, raw)
	case 32:
		return splitWide[uint32](s, ix, target, ref, raw)
	default:
		return splitWide[uint64](s, ix, target, ref, raw)
	}
}

func zs[T le.Lane](s *Spec, dst []uint64, target, ref []byte) {
	p := residualOf[T](s)
	var z [block]T
	for len(dst) > 0 {
		n := min(len(dst), block)
		p.forward(z[:n], target, ref)
		for i, v := range z[:n] {
			dst[i] = uint64(v)
		}
		dst, target, ref = dst[n:], target[n*s.Width/8:], ref[n*s.Width/8:]
	}
}

// splitDirect is map 2: 8-bit lanes, the token is z, nothing is raw.
func splitDirect(s *Spec, ix []uint16, target, ref []byte) bool {
	p := residualOf[uint8](s)
	var contextMask uint16
	if s.ContextPart == ContextByte {
		contextMask = 0xff00
	}
	var z [block]uint8
	var seen uint8
	for len(ix) > 0 {
		n := min(len(ix), block)
		seen |= p.forward(z[:n], target, ref)
		for i, r := range ref[:n] {
			ix[i] = uint16(r)<<8&contextMask | uint16(z[i&(block-1)])
		}
		ix, target, ref = ix[n:], target[n:], ref[n:]
	}
	return seen != 0
}

// splitWide is maps 0 and 1. Without raw there are tokens only.
func splitWide[T uint16 | uint32 | uint64](s *Spec, ix []uint16, target, ref []byte, raw *RawWriter) bool {
	p := residualOf[T](s)
	var z [block]T
	var seen T
	for len(ix) > 0 {
		n := min(len(ix), block)
		contexts[T](s, ix[:n], ref)
		seen |= p.forward(z[:n], target, ref)
		switch {
		case s.Map == MapLeading && raw == nil:
			tokensLeading(s, ix[:n], z[:n])
		case s.Map == MapLeading:
			splitLeading(s, ix[:n], z[:n], raw)
		case raw == nil:
			tokensHybrid(s, ix[:n], z[:n])
		case s.Width-s.K > 56:
			splitHybridLong(ix[:n], z[:n], raw)
		default:
			splitHybrid(s, ix[:n], z[:n], raw)
			splitPlane(s, z[:n], raw)
		}
		ix, target, ref = ix[n:], target[n*s.Width/8:], ref[n*s.Width/8:]
	}
	return seen != 0
}

// splitHybrid adds tokens to ix and appends tails, where at most 56 bits are above the plane. The accumulator is flushed when one more
// tail might not fit beside the up to 7 bits that stay in it.
func splitHybrid[T uint16 | uint32 | uint64](s *Spec, ix []uint16, z []T, raw *RawWriter) {
	k := uint(s.K) & 63
	flush := 0 // after every value
	switch yw := s.Width - s.K; {
	case yw <= 16:
		flush = 3 // 4 * 13 + 7 bits
	case yw <= 24:
		flush = 1 // 2 * 21 + 7 bits
	}
	tail, tailLen, acc, nbits := raw.tail, raw.tailLen, raw.acc, raw.nbits
	z = z[:len(ix)]
	for i, v := range z {
		y := uint64(v >> k)
		n := uint(bits.Len64(y|4)) - 3
		ix[i] |= uint16(4*n + uint(y>>(n&63)))
		acc |= y & (1<<(n&63) - 1) << (nbits & 63)
		nbits += n
		if i&flush == flush {
			le.Store64(tail, tailLen, acc)
			tailLen += int(nbits >> 3)
			acc >>= nbits & 56
			nbits &= 7
		}
	}
	le.Store64(tail, tailLen, acc)
	raw.tailLen, raw.acc, raw.nbits = tailLen+int(nbits>>3), acc>>(nbits&56), nbits&7
}

// splitHybridLong is splitHybrid for 64 bits and no plane.
func splitHybridLong[T uint16 | uint32 | uint64](ix []uint16, z []T, raw *RawWriter) {
	for i, v := range z {
		token, n := hybridToken(uint64(v))
		ix[i] |= uint16(token)
		raw.put(uint64(v)&(1<<(n&63)-1), n)
	}
}

func tokensHybrid[T uint16 | uint32 | uint64](s *Spec, ix []uint16, z []T) {
	k := uint(s.K) & 63
	z = z[:len(ix)]
	for i, v := range z {
		token, _ := hybridToken(uint64(v >> k))
		ix[i] |= uint16(token)
	}
}

// splitPlane appends the low K bits of every z.
func splitPlane[T uint16 | uint32 | uint64](s *Spec, z []T, raw *RawWriter) {
	planeBytes := s.K / 8
	if planeBytes == 0 {
		return
	}
	plane, planeLen := raw.plane, raw.planeLen
	for _, v := range z {
		le.Store64(plane, planeLen, uint64(v)) // the bytes above are overwritten by the next value
		planeLen += planeBytes
	}
	raw.planeLen = planeLen
}

func splitLeading[T uint16 | uint32 | uint64](s *Spec, ix []uint16, z []T, raw *RawWriter) {
	tokensLeading(s, ix, z)
	k, n, planeBytes := uint(s.K)&63, uint(s.T-s.K)&63, s.K/8
	mask := uint64(1)<<n - 1
	plane, planeLen := raw.plane, raw.planeLen
	for _, v := range z {
		if v == 0 {
			continue
		}
		raw.put(uint64(v>>k)&mask, n)
		if planeBytes != 0 {
			le.Store64(plane, planeLen, uint64(v))
			planeLen += planeBytes
		}
	}
	raw.planeLen = planeLen
}

func tokensLeading[T uint16 | uint32 | uint64](s *Spec, ix []uint16, z []T) {
	t := uint(s.T) & 63
	offset := uint16(1 - s.Base)
	z = z[:len(ix)]
	for i, v := range z {
		token := uint16(v>>t) + offset
		if v == 0 {
			token = 0
		}
		ix[i] = token
	}
}

// put appends n <= 63 bits to the tail; those of v above must be 0.
func (w *RawWriter) put(v uint64, n uint) {
	acc := w.acc | v<<(w.nbits&63)
	total := w.nbits + n
	le.Store64(w.tail, w.tailLen, acc)
	w.tailLen += int(total >> 3)
	if total >= 64 {
		acc = v >> ((64 - w.nbits) & 63) // at least one bit waited, or n would be 64
	} else {
		acc >>= total & 56
	}
	w.acc, w.nbits = acc, total&7
}
