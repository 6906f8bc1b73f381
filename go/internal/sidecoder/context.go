package sidecoder

const (
	probBits  = 16
	probHalf  = 1 << (probBits - 1)
	probMin   = 32
	probMax   = 1<<probBits - 1 - probMin
	countMax  = 30
	floorRate = 2048

	// One turn of the renormalisation loop makes the top byte of lo and hi differ again.
	topByte = 1 << 24
)

// rate is R[n] of section 4: about 1/(n + 1.5) in 1/65536, so a young context averages what it has seen and an old one
// forgets with rate 1/32.
var rate = func() (r [countMax + 1]uint32) {
	for n := range r {
		r[n] = 131072 / uint32(2*n+3)
	}
	r[countMax] = floorRate
	return r
}()

// Context is one adaptive probability of section 4. The zero value is a new context, (32768, 0).
type Context struct {
	delta uint16 // p ^ 32768, so that zeroed memory is a set of new contexts
	n     uint8
}

// prob returns the probability of a 1 bit in 1/65536.
func (c *Context) prob() uint32 { return uint32(c.delta ^ probHalf) }

// update moves the probability towards bit; p is c.prob() from before the bit.
func (c *Context) update(p uint32, bit uint) {
	r := rate[min(c.n, countMax)] // min only drops the bounds check
	if bit != 0 {
		p += ((1<<probBits - 1 - p) * r) >> probBits
	} else {
		p -= (p * r) >> probBits
	}
	c.delta = uint16(min(max(p, probMin), probMax)) ^ probHalf
	c.n = min(c.n+1, countMax)
}

// GammaMax is the largest value that Encoder.Gamma can code: v + 1 has at most 32 bits.
const GammaMax = 1<<32 - 2

// Gamma holds the contexts of one gamma code of section 4: U for the length in unary, B for the first bit under the
// leading one. The zero value is new.
type Gamma struct {
	u, b [32]Context
}
