package sidecoder

import "math/big"

// oracle is section 4 word by word: probabilities in a plain pair, the interval as exact integers that only grow. low and
// high are the bounds of the interval as numbers of 32 + 8 * turns bits; the coder's lo and hi are their low 32 bits.
type oracle struct {
	low, high big.Int
	turns     int
}

type oracleContext struct{ p, n int64 }

func newOracle() *oracle {
	var o oracle
	o.high.SetUint64(1<<32 - 1)
	return &o
}

func (o *oracle) words() (lo, hi int64) {
	mask := big.NewInt(1<<32 - 1)
	var l, h big.Int
	return l.And(&o.low, mask).Int64(), h.And(&o.high, mask).Int64()
}

func (o *oracle) bit(p int64, bit uint) {
	lo, hi := o.words()
	r := hi - lo
	mid := lo + (r>>16)*p + (((r & 0xffff) * p) >> 16)
	if bit == 1 {
		o.high.Add(&o.high, big.NewInt(mid-hi))
	} else {
		o.low.Add(&o.low, big.NewInt(mid+1-lo))
	}
	for {
		lo, hi = o.words()
		if lo^hi >= 1<<24 {
			return
		}
		o.low.Lsh(&o.low, 8)
		o.high.Lsh(&o.high, 8).Add(&o.high, big.NewInt(255))
		o.turns++
	}
}

func (o *oracle) context(c *oracleContext, bit uint) {
	o.bit(c.p, bit)
	rate := int64(2048)
	if c.n < 30 {
		rate = 131072 / (2*c.n + 3)
	}
	if bit == 1 {
		c.p += ((65535 - c.p) * rate) >> 16
	} else {
		c.p -= (c.p * rate) >> 16
	}
	c.p = min(max(c.p, 32), 65535-32)
	c.n = min(c.n+1, 30)
}

// contains tells whether coded, with zeros after it, names a number in the interval.
func (o *oracle) contains(coded []byte) bool {
	full := make([]byte, o.turns+4)
	if copy(full, coded) < len(coded) {
		return false
	}
	v := new(big.Int).SetBytes(full)
	return v.Cmp(&o.low) >= 0 && v.Cmp(&o.high) <= 0
}
