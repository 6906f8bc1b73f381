package sidecoder

import "math/bits"

// Encoder writes bits with the adaptive coder of FORMAT.md section 4. The zero value is ready and appends to an empty
// string; Reset lets it reuse memory.
type Encoder struct {
	lo  uint32
	inv uint32 // ^hi, so that the zero value is the state [0, 2^32 - 1]
	out []byte
	at  int // where this string begins in out
}

// Reset starts a new string that is appended to dst (usually buf[:0] of an earlier one).
func (e *Encoder) Reset(dst []byte) { *e = Encoder{out: dst, at: len(dst)} }

// bit codes one bit with probability p / 65536 of being 1, p in 1 .. 65535.
func (e *Encoder) bit(p uint32, bit uint) {
	lo, hi := e.lo, ^e.inv
	mid := split(lo, hi, p)
	if bit != 0 {
		hi = mid
	} else {
		lo = mid + 1
	}
	for (lo^hi)>>24 == 0 {
		e.out = append(e.out, byte(hi>>24))
		lo <<= 8
		hi = hi<<8 | 0xff
	}
	e.lo, e.inv = lo, ^hi
}

// split divides the interval [lo, hi] in proportion p / 65536; the lower part [lo, mid] stands for a 1.
func split(lo, hi, p uint32) (mid uint32) {
	r := hi - lo
	return lo + (r>>probBits)*p + ((r&(1<<probBits-1))*p)>>probBits
}

// Bit codes bit (0 or 1) in context c and adapts c.
func (e *Encoder) Bit(c *Context, bit uint) {
	p := c.prob()
	e.bit(p, bit)
	c.update(p, bit)
}

// Raw codes the low k bits of v (k <= 32), most significant first, without adaptation.
func (e *Encoder) Raw(k uint, v uint32) {
	for k > 0 {
		k--
		e.bit(probHalf, uint(v>>k)&1)
	}
}

// Tree codes the k-bit value v with the contexts t[1 .. 2^k - 1]; len(t) must be 2^k.
func (e *Encoder) Tree(t []Context, k uint, v uint32) {
	node := uint32(1)
	for k > 0 {
		k--
		bit := v >> k & 1
		e.Bit(&t[node], uint(bit))
		node = 2*node + bit
	}
}

// Gamma codes v, which must be at most GammaMax.
func (e *Encoder) Gamma(g *Gamma, v uint32) {
	v++
	n := uint(bits.Len32(v) - 1)
	for i := range n {
		e.Bit(&g.u[i], 1)
	}
	e.Bit(&g.u[n], 0)
	if n == 0 {
		return
	}
	e.Bit(&g.b[n], uint(v>>(n-1))&1)
	e.Raw(n-1, v)
}

// Finish ends the string and returns it; call Reset before using e again. The top bytes of lo and hi differ, so one byte
// always suffices to name a value in [lo, hi]. Zero bytes at the end are dropped: the decoder reads them anyway.
func (e *Encoder) Finish() []byte {
	if e.lo > 0 {
		e.out = append(e.out, byte((uint64(e.lo)+topByte-1)>>24))
	}
	for len(e.out) > e.at && e.out[len(e.out)-1] == 0 {
		e.out = e.out[:len(e.out)-1]
	}
	return e.out
}
