package testkit

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Rand returns a seeded generator.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x756c7061636b)) }

// PutLane sets lane value i of b, which has lane values of width bits.
func PutLane(b []byte, i, width int, v uint64) {
	var tmp [8]byte
	binary.LittleEndian.PutUint64(tmp[:], v)
	copy(b[i*width/8:(i+1)*width/8], tmp[:])
}

// Lane returns lane value i of b.
func Lane(b []byte, i, width int) uint64 {
	var tmp [8]byte
	copy(tmp[:], b[i*width/8:(i+1)*width/8])
	return binary.LittleEndian.Uint64(tmp[:])
}

// Edges returns the bit patterns at which lane kernels go wrong: around zero, around the sign bit, around every power of two, and for
// floats the smallest and largest subnormals and normals, infinities and NaNs with payloads, of both signs.
func Edges(width int, isFloat bool, expBits, mantBits int) []uint64 {
	top := uint64(1) << (width - 1)
	all := top | (top - 1)
	var out []uint64
	add := func(v uint64) { out = append(out, v&all, (v^top)&all) }
	for k := range width {
		p := uint64(1) << k
		add(p)
		add(p - 1)
		add(p + 1)
		add(-p)
	}
	if isFloat {
		exp := (uint64(1)<<expBits - 1) << mantBits
		one := uint64(1)
		for _, v := range []uint64{exp, exp | 1, exp | one<<(mantBits-1), exp | (one<<mantBits - 1), exp - 1, one << mantBits, one<<mantBits - 1,
			exp >> 1 & exp, exp>>1&exp | 1} {
			add(v)
		}
	}
	return out
}

// Float is a pair of checkpoints of a synthetic training run, n values of a float kind: weights around 0.02, scaled by rows, and an update of
// relative size step. Values are rounded to nearest; a 64-bit kind keeps all its bits.
func Float(n, width, expBits, mantBits int, step float64, seed uint64) (target, ref []byte) {
	rng := Rand(seed)
	target, ref = make([]byte, n*width/8), make([]byte, n*width/8)
	scale := 1.0
	for i := range n {
		if i%1024 == 0 {
			scale = math.Exp(0.5 * rng.NormFloat64())
		}
		r := 0.02 * scale * rng.NormFloat64()
		PutLane(ref, i, width, Round(r, expBits, mantBits))
		PutLane(target, i, width, Round(r+step*0.02*scale*rng.NormFloat64(), expBits, mantBits))
	}
	return target, ref
}

// Round returns the bits of the float of this kind that is nearest to v, ties to even, with gradual underflow; too large values become
// infinity.
func Round(v float64, expBits, mantBits int) uint64 {
	sign := uint64(0)
	if math.Signbit(v) {
		sign = 1 << (expBits + mantBits)
		v = -v
	}
	if expBits == 11 {
		return sign | math.Float64bits(v)
	}
	bias := 1<<(expBits-1) - 1
	frac, exp := math.Frexp(v) // v = frac * 2^exp, frac in [0.5, 1)
	e := exp - 1 + bias
	if v == 0 {
		return sign
	}
	shift := mantBits + 1
	if e < 1 { // subnormal
		shift -= 1 - e
		e = 1
	}
	m := uint64(math.RoundToEven(math.Ldexp(frac, shift)))
	u := m
	if m >= 1<<mantBits {
		u = uint64(e)<<mantBits + (m - 1<<mantBits)
	}
	return sign | min(u, (uint64(1)<<expBits-1)<<mantBits)
}
