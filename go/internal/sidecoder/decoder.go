package sidecoder

import (
	"encoding/binary"
	"errors"
)

var (
	errUnread = errors.New("coded string is longer than what its decoder consumes")
	errZero   = errors.New("coded string ends in a zero byte")
	errGamma  = errors.New("gamma code longer than 31 bits")
)

// Decoder reads what Encoder wrote (FORMAT.md section 4). On damaged input it goes on with some value and remembers the
// first error, so a caller whose loops are bounded may check Finish once at the end.
type Decoder struct {
	lo, hi, x uint32
	in        []byte
	next      int // bytes read, counting the zeros after the end
	err       error
}

// Reset starts reading coded, which the Decoder keeps but does not change.
func (d *Decoder) Reset(coded []byte) {
	var first [4]byte
	copy(first[:], coded)
	*d = Decoder{hi: 1<<32 - 1, x: binary.BigEndian.Uint32(first[:]), in: coded, next: len(first)}
}

func (d *Decoder) bit(p uint32) uint {
	lo, hi := d.lo, d.hi
	mid := split(lo, hi, p)
	var bit uint
	if d.x <= mid {
		bit = 1
		hi = mid
	} else {
		lo = mid + 1
	}
	for (lo^hi)>>24 == 0 {
		lo <<= 8
		hi = hi<<8 | 0xff
		d.x <<= 8
		if d.next < len(d.in) {
			d.x |= uint32(d.in[d.next])
		}
		d.next++
	}
	d.lo, d.hi = lo, hi
	return bit
}

// Bit decodes one bit in context c and adapts c.
func (d *Decoder) Bit(c *Context) uint {
	p := c.prob()
	bit := d.bit(p)
	c.update(p, bit)
	return bit
}

// Raw decodes k bits (k <= 32), most significant first.
func (d *Decoder) Raw(k uint) uint32 {
	var v uint32
	for ; k > 0; k-- {
		v = v<<1 | uint32(d.bit(probHalf))
	}
	return v
}

// Tree decodes a k-bit value with the contexts t[1 .. 2^k - 1]; len(t) must be 2^k.
func (d *Decoder) Tree(t []Context, k uint) uint32 {
	node := uint32(1)
	for range k {
		node = 2*node + uint32(d.Bit(&t[node]))
	}
	return node - (1 << k)
}

// Gamma decodes a value of at most GammaMax.
func (d *Decoder) Gamma(g *Gamma) uint32 {
	n := uint(0)
	for d.Bit(&g.u[n]) != 0 {
		if n++; n == uint(len(g.u)) {
			d.fail(errGamma)
			return 0
		}
	}
	if n == 0 {
		return 0
	}
	v := 2 | uint32(d.Bit(&g.b[n]))
	return (v<<(n-1) | d.Raw(n-1)) - 1
}

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Err returns the first error so far, or nil.
func (d *Decoder) Err() error { return d.err }

// Finish returns the first error, or an error when the string is not the one spelling of what was decoded: it has bytes
// that decoding did not consume, or a zero byte at the end.
func (d *Decoder) Finish() error {
	n := len(d.in)
	switch {
	case n > 0 && d.in[n-1] == 0:
		d.fail(errZero)
	case n > d.next:
		d.fail(errUnread)
	}
	return d.err
}
