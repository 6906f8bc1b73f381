package transform

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

// exponentContext computes contexts of part 1; for part 0 its mask is 0, so that every context is 0.
type exponentContext struct {
	shift, mask, base int
}

func (s *Spec) exponentContext() exponentContext {
	if s.ContextPart != ContextExponent {
		return exponentContext{}
	}
	return exponentContext{shift: s.MantBits, mask: 1<<s.ExpBits - 1, base: int(s.ExpBase)}
}

func (e *exponentContext) of(r uint64) uint16 {
	return uint16(min(max(int(r>>(e.shift&63))&e.mask-e.base, 0), 31))
}

func zs[T le.Lane](s *Spec, dst []uint64, target, ref []byte) {
	p, w := residualOf[T](s), widthOf[T]()
	for i := range dst {
		dst[i] = uint64(p.z(le.Load[T](target, i), le.Load[T](ref, i), w))
	}
}

// splitDirect codes 8-bit lanes: the token is z, nothing is raw.
func splitDirect(s *Spec, ix []uint16, target, ref []byte) bool {
	p := residualOf[uint8](s)
	var contextMask uint16
	if s.ContextPart == ContextByte {
		contextMask = 0xff00
	}
	target, ref = target[:len(ix)], ref[:len(ix)]
	var seen uint8
	for i := range ix {
		r := ref[i]
		z := p.z(target[i], r, 8)
		seen |= z
		ix[i] = uint16(r)<<8&contextMask | uint16(z)
	}
	return seen != 0
}

// splitHybrid16 is map 0 where at most 16 bits are above the plane, so that four tails fit a 64-bit accumulator with the up to 7 bits
// that wait in it.
func splitHybrid16[T uint16 | uint32 | uint64](s *Spec, ix []uint16, target, ref []byte, raw *RawWriter) bool {
	p, w, c := residualOf[T](s), widthOf[T](), s.exponentContext()
	k, planeBytes := uint(s.K)&63, s.K/8
	plane, planeLen := raw.plane, raw.planeLen
	tail, tailLen := raw.tail, raw.tailLen
	acc, nbits := raw.acc, raw.nbits
	var seen T
	for i := range ix {
		r := le.Load[T](ref, i)
		z := p.z(le.Load[T](target, i), r, w)
		seen |= z
		y := uint32(z >> k)
		n := uint(bits.Len32(y|4)) - 3
		ix[i] = c.of(uint64(r))<<8 | uint16(4*n+uint(y>>(n&31)))
		acc |= uint64(y&(1<<(n&31)-1)) << (nbits & 63)
		nbits += n
		if i&3 == 3 {
			le.Store64(tail, tailLen, acc)
			tailLen += int(nbits >> 3)
			acc >>= nbits & 56
			nbits &= 7
		}
		if planeBytes != 0 {
			le.Store64(plane, planeLen, uint64(z))
			planeLen += planeBytes
		}
	}
	le.Store64(tail, tailLen, acc)
	tailLen += int(nbits >> 3)
	acc >>= nbits & 56
	raw.planeLen, raw.tailLen, raw.acc, raw.nbits = planeLen, tailLen, acc, nbits&7
	return seen != 0
}

// splitHybrid is map 0 for any width.
func splitHybrid[T uint16 | uint32 | uint64](s *Spec, ix []uint16, target, ref []byte, raw *RawWriter) bool {
	p, w, c := residualOf[T](s), widthOf[T](), s.exponentContext()
	k, planeBytes := uint(s.K)&63, s.K/8
	plane, planeLen := raw.plane, raw.planeLen
	out := tailOf(raw)
	var seen T
	for i := range ix {
		r := le.Load[T](ref, i)
		z := p.z(le.Load[T](target, i), r, w)
		seen |= z
		y := uint64(z >> k)
		token, n := hybridToken(y)
		ix[i] = c.of(uint64(r))<<8 | uint16(token)
		out.put(y&(1<<(n&63)-1), n)
		if planeBytes != 0 {
			le.Store64(plane, planeLen, uint64(z))
			planeLen += planeBytes
		}
	}
	raw.planeLen = planeLen
	out.save(raw)
	return seen != 0
}

func tokensHybrid[T uint16 | uint32 | uint64](s *Spec, ix []uint16, target, ref []byte) bool {
	p, w, c := residualOf[T](s), widthOf[T](), s.exponentContext()
	k := uint(s.K) & 63
	var seen T
	for i := range ix {
		r := le.Load[T](ref, i)
		z := p.z(le.Load[T](target, i), r, w)
		seen |= z
		token, _ := hybridToken(uint64(z >> k))
		ix[i] = c.of(uint64(r))<<8 | uint16(token)
	}
	return seen != 0
}

// splitLeading is map 1: floats alone, rotated; the token is the top of the value.
func splitLeading[T uint16 | uint32 | uint64](s *Spec, ix []uint16, target []byte, raw *RawWriter) bool {
	p, w := residualOf[T](s), widthOf[T]()
	k, t, planeBytes := uint(s.K)&63, uint(s.T)&63, s.K/8
	n := t - k
	mask := uint64(1)<<(n&63) - 1
	offset := uint16(1 - s.Base)
	plane, planeLen := raw.plane, raw.planeLen
	out := tailOf(raw)
	var seen T
	for i := range ix {
		z := p.z(le.Load[T](target, i), 0, w)
		if z == 0 {
			ix[i] = 0
			continue
		}
		seen |= z
		ix[i] = uint16(z>>t) + offset
		out.put(uint64(z>>k)&mask, n)
		if planeBytes != 0 {
			le.Store64(plane, planeLen, uint64(z))
			planeLen += planeBytes
		}
	}
	raw.planeLen = planeLen
	out.save(raw)
	return seen != 0
}

func tokensLeading[T uint16 | uint32 | uint64](s *Spec, ix []uint16, target []byte) bool {
	p, w := residualOf[T](s), widthOf[T]()
	t := uint(s.T) & 63
	offset := uint16(1 - s.Base)
	var seen T
	for i := range ix {
		z := p.z(le.Load[T](target, i), 0, w)
		seen |= z
		token := uint16(z>>t) + offset
		if z == 0 {
			token = 0
		}
		ix[i] = token
	}
	return seen != 0
}

// tailWriter is the tail part of a RawWriter in local variables.
type tailWriter struct {
	buf   []byte
	pos   int
	acc   uint64
	nbits uint // 0..7 between puts
}

func tailOf(w *RawWriter) tailWriter { return tailWriter{w.tail, w.tailLen, w.acc, w.nbits} }

func (t *tailWriter) save(w *RawWriter) { w.tailLen, w.acc, w.nbits = t.pos, t.acc, t.nbits }

// put appends n <= 63 bits; those of v above must be 0.
func (t *tailWriter) put(v uint64, n uint) {
	acc := t.acc | v<<(t.nbits&63)
	total := t.nbits + n
	le.Store64(t.buf, t.pos, acc)
	t.pos += int(total >> 3)
	if total >= 64 {
		acc = v >> ((64 - t.nbits) & 63) // at least one bit waited, or n would be 64
	} else {
		acc >>= total & 56
	}
	t.acc, t.nbits = acc, total&7
}
