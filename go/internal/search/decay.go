package search

import (
	"bytes"
	"math"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/le"
	"github.com/ulpack/ulpack/go/internal/predict"
)

// Rows of a tensor that an optimizer only decayed (FORMAT.md section 34).
const (
	lookRows  = 64 // rows that are looked at
	lookLanes = 64 // lane values of them
	freeRows  = 4  // for which constants are searched
	freeSteps = 256
	freeMore  = 8 // values of a constant that are tried at a number of steps
)

// The usual decay rates of the moments, and numbers of steps beyond freeSteps.
var (
	shrinkRates = []float64{0.9, 0.95, 0.8, 0.85, 0.98, 0.99, 0.5}
	scaleRates  = []float64{0.999, 0.95, 0.98, 0.99, 0.995, 0.9, 0.9999, 0.8, 0.85, 0.5}
	manySteps   = []int{300, 400, 500, 512, 600, 700, 750, 800, 900, 1000, 1024, 1500, 2000, 2048, 2500, 3000, 4000, 4096}
)

// Rows is a tensor and its reference as rows of rho lane values of a float dtype of 16 or 32 bits.
type Rows struct {
	DType       *dtype.Info
	Target, Ref []byte
	Rho, N      uint64 // length and number of rows
}

// row is one row.
func (r *Rows) row(i uint64) (x, ref []byte) {
	size := r.Rho * uint64(r.DType.ItemSize)
	return r.Target[i*size : (i+1)*size], r.Ref[i*size : (i+1)*size]
}

// Decay finds a program of one kind of step, repeated, that gives a row of a tensor that got no gradient exactly from that of
// its reference. Rows are looked at evenly, and those that shrank are tried.
func (r *Rows) Decay() (predict.Program, bool) {
	var probes []uint64
	looked := min(r.N, lookRows)
	for k := range looked {
		if i := k * r.N / looked; r.shrank(i) {
			probes = append(probes, i)
		}
	}
	var memory []byte
	for _, i := range probes {
		for _, rate := range shrinkRates {
			if p, ok := r.steps(i, predict.Shrink, float32(1-rate)); ok && r.Exact(&p, i, &memory) {
				return p, true
			}
		}
		for _, rate := range scaleRates {
			if p, ok := r.steps(i, predict.Scale, float32(rate)); ok && r.Exact(&p, i, &memory) {
				return p, true
			}
		}
	}
	if r.DType.Width == 32 {
		tried := min(len(probes), freeRows)
		for k := range tried {
			if p, ok := r.free(probes[k*len(probes)/tried]); ok {
				return p, true
			}
		}
	}
	return predict.Program{}, false
}

// shrank reports whether each of the first lane values of a row has the sign of its reference, which is finite, and is not
// larger, and one is smaller.
func (r *Rows) shrank(i uint64) bool {
	x, ref := r.row(i)
	smaller := false
	sign := uint32(1) << (r.DType.Width - 1)
	limit := uint32(1<<r.DType.ExpBits-1) << r.DType.MantBits
	for k := range int(min(r.Rho, lookLanes)) {
		a, b := r.lane(x, k), r.lane(ref, k)
		if (a^b)&sign != 0 || a > b || b&^sign >= limit {
			return false
		}
		smaller = smaller || a < b
	}
	return smaller
}

func (r *Rows) lane(b []byte, i int) uint32 {
	if r.DType.Width == 16 {
		return uint32(le.Load[uint16](b, i))
	}
	return le.Load[uint32](b, i)
}

// strongest is the lane value of a row that shrank by the most steps between representable values, the first on ties.
func (r *Rows) strongest(i uint64) (x, ref uint32) {
	a, b := r.row(i)
	for k := range int(r.Rho) {
		if u, v := r.lane(a, k), r.lane(b, k); v-u > ref-x {
			x, ref = u, v
		}
	}
	return x, ref
}

// steps counts how often the step has to be repeated to give the strongest lane value of a row.
func (r *Rows) steps(i uint64, form uint8, c float32) (predict.Program, bool) {
	x, ref := r.strongest(i)
	one := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: form, C: c, Count: 1}}}
	var at [4]byte
	r.put(at[:], ref)
	own := []dtype.Info{*r.DType}
	slot := at[:r.DType.ItemSize]
	for k := 1; k <= predict.MaxSteps; k++ {
		before := r.lane(slot, 0)
		one.Predict(slot, [][]byte{slot}, r.DType, own)
		now := r.lane(slot, 0)
		switch {
		case now == x:
			one.Runs[0].Count = k
			return one, true
		case now < x || now >= before:
			return one, false
		}
	}
	return one, false
}

func (r *Rows) put(b []byte, v uint32) {
	if r.DType.Width == 16 {
		le.Store(b, 0, uint16(v))
		return
	}
	le.Store(b, 0, v)
}

// Exact reports whether a program gives a row exactly.
func (r *Rows) Exact(p *predict.Program, i uint64, memory *[]byte) bool {
	const head = 16 // lane values that are tried before the others
	x, ref := r.row(i)
	if uint64(cap(*memory)) < uint64(len(x)) {
		*memory = make([]byte, len(x))
	}
	own := []dtype.Info{*r.DType}
	n := min(len(x), head*r.DType.ItemSize)
	for _, to := range []int{n, len(x)} {
		from := 0
		if to > n {
			from = n
		}
		predicted := (*memory)[from:to]
		p.Predict(predicted, [][]byte{ref[from:to]}, r.DType, own)
		if !bytes.Equal(predicted, x[from:to]) {
			return false
		}
	}
	return true
}

// free tries float32 constants below 1 at many numbers of steps: those that give the strongest lane value of a row.
func (r *Rows) free(i uint64) (predict.Program, bool) {
	x, ref := r.strongest(i)
	var memory []byte
	try := func(k int) (predict.Program, bool) {
		c := leastConstant(x, ref, k)
		for range freeMore {
			if c >= 1 || scaled(ref, c, k) != x {
				break
			}
			p := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: predict.Scale, C: c, Count: k}}}
			if r.Exact(&p, i, &memory) {
				return p, true
			}
			c = math.Float32frombits(math.Float32bits(c) + 1)
		}
		return predict.Program{}, false
	}
	for k := 1; k <= freeSteps; k++ {
		if p, ok := try(k); ok {
			return p, true
		}
	}
	for _, k := range manySteps {
		if p, ok := try(k); ok {
			return p, true
		}
	}
	return predict.Program{}, false
}

// leastConstant is the smallest positive float32 c for which k multiplications of ref do not give less than x. Magnitudes of
// float32 values are in the order of their bits, and a rounded product rises with its factors.
func leastConstant(x, ref uint32, k int) float32 {
	lo, hi := uint32(0), math.Float32bits(1) // the result is above lo and at most hi
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if magnitude(scaled(ref, math.Float32frombits(mid), k)) >= magnitude(x) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return math.Float32frombits(hi)
}

func magnitude(u uint32) uint32 { return u &^ (1 << 31) }

// scaled multiplies k times.
func scaled(ref uint32, c float32, k int) uint32 {
	p := math.Float32frombits(ref)
	for range k {
		p = float32(p * c)
	}
	return math.Float32bits(p)
}
