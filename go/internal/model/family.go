package model

import (
	"errors"
	"math/bits"
	"sync/atomic"
)

// The parametric family of FORMAT.md section 10: distributions given by a shape and a scale, in fixed point.
const (
	shapes   = 5
	minScale = -32
	maxScale = 160
	scales   = maxScale - minScale + 1

	parametricLog = 12

	// Tables of the survival function: exp(-x) and exp(-x^2) in base 2 for x = m/4 * 2^j.
	minJ, maxJ = -40, 8
	// survive needs j outside of that: all shapes are constant from here on.
	firstJ, lastJ = -46, 13
	mantissas     = 4 // m = 4 .. 7

	one = 1 << 32 // U, a probability of 1
)

var (
	errShape = errors.New("parametric shape out of range")
	errSlope = errors.New("parametric slope out of range")
	errMap   = errors.New("parametric tables do not exist for this token map")
)

// decay is E or Q of section 10 for one h: values below one by m and j.
type decay [mantissas][maxJ - minJ + 1]uint64

// newDecay computes a table from its values at j = 0; a step from j to j + 1 squares `times` times.
func newDecay(start [mantissas]uint64, times int) (d decay) {
	for m, v := range start {
		d[m][-minJ] = v
		for j := 1; j <= maxJ; j++ {
			v := d[m][j-1-minJ]
			for range times {
				v = v * v >> 32
			}
			d[m][j-minJ] = v
		}
		for j := -1; j >= minJ; j-- {
			v := d[m][j+1-minJ]
			for range times {
				v = isqrt(v << 32)
			}
			d[m][j-minJ] = v
		}
	}
	return d
}

func (d *decay) at(m, j int) uint64 {
	switch {
	case j < minJ:
		return one
	case j > maxJ:
		return 0
	default:
		return d[m-mantissas][j-minJ]
	}
}

// isqrt returns the floor of the square root of v >= 1.
func isqrt(v uint64) uint64 {
	// Newton's iteration from above decreases until it has reached the result.
	x := uint64(1) << ((bits.Len64(v) + 1) / 2)
	for {
		y := (x + v/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// survivors holds S(m, j) of section 10 at index 4 (j - firstJ) + m - 4, so that bounds m * 2^q are points on one axis and
// a scale is a shift on it.
type survivors [mantissas * (lastJ - firstJ + 1)]uint64

// survival is S by shape and h.
var survival = func() (s [shapes][2]survivors) {
	e := [2]decay{
		newDecay([mantissas]uint64{2147483648, 1805811301, 1518500250, 1276901417}, 1),
		newDecay([mantissas]uint64{1611532835, 1261272664, 987140130, 772589198}, 1),
	}
	q := [2]decay{
		newDecay([mantissas]uint64{2147483648, 1454120821, 902905651, 514109347}, 2),
		newDecay([mantissas]uint64{1073741824, 492312797, 189812531, 61539100}, 2),
	}
	for h := range 2 {
		for j := firstJ; j <= lastJ; j++ {
			for m := mantissas; m < 2*mantissas; m++ {
				at := mantissas*(j-firstJ) + m - mantissas
				hi, lo := bits.Mul64(e[h].at(m, j), q[h].at(m, j)) // up to 2^64
				s[0][h][at] = e[h].at(m, j)
				s[1][h][at] = hi<<32 | lo>>32
				s[2][h][at] = (7*e[h].at(m, j) + e[h].at(m, j-3)) >> 3
				s[3][h][at] = (15*e[h].at(m, j+4) + e[h].at(m, j)) >> 4
				s[4][h][at] = ramp(uint64(m), j, h)
			}
		}
	}
	return s
}()

// ramp is S of shape 4, the uniform distribution.
func ramp(m uint64, j, h int) uint64 {
	c := [2]uint64{one, 6074001000}[h] // 2^32, 2^32.5
	switch {
	case j > 2:
		return 0
	case j <= -30:
		return one
	default:
		return one - min(one, (m*c)>>(2-j))
	}
}

// hasFamily reports whether parametric tables exist for the token map.
func (s *ParamSpec) hasFamily() bool { return s.Map != 1 || s.T == s.MantBits-1 }

// CheckParametric returns an error unless shape and slope are in range, a slope has the context part it needs, and the token
// map allows parametric tables (FORMAT.md section 10).
func CheckParametric(shape, slope uint8, spec ParamSpec) error {
	switch {
	case shape >= shapes:
		return errShape
	case slope > 1, slope == 1 && spec.ContextPart != contextExponent:
		return errSlope
	case !spec.hasFamily():
		return errMap
	}
	return nil
}

// bounds are the lower bounds of the tokens as points on the axis of survivors for scale 0; token 0 has none.
type bounds struct {
	tokens int
	point  [MaxTokens]int32 // 4 (j - firstJ) + m - 4
	shared bool             // consecutive tokens may have the same bound
}

func (b *bounds) init(spec *ParamSpec) {
	b.tokens = spec.A
	b.shared = spec.Map == 2
	for s := 1; s < spec.A; s++ {
		point := 0 // 4 q + m - 4, and 8 more for the j = q + 2 of maps 0 and 2
		switch spec.Map {
		case 1:
			point = int(spec.Base&3) + s - 1
		case 2:
			point = floatPoint(uint(s)) + 2*mantissas
		default:
			v := uint(s)
			n := 0
			if s >= 8 {
				v, n = 4+v&3, s>>2-1
			}
			point = floatPoint(v) + mantissas*(n+spec.K+2)
		}
		b.point[s] = int32(point - mantissas*firstJ)
	}
}

// floatPoint returns 4 q + m - 4 for v >= 1 rounded down to m * 2^q, m in 4 .. 7.
func floatPoint(v uint) int {
	q := bits.Len(v) - 3
	m := v >> max(q, 0) << max(-q, 0)
	return mantissas*q + int(m) - mantissas
}

// frequencies fills freq with the row of shape and sc (section 10).
func (b *bounds) frequencies(freq []uint16, shape uint8, sc int) {
	sc = min(max(sc, minScale), maxScale)
	h := sc & 1
	shift := int32(mantissas * ((sc + h) / 2))
	axis := &survival[shape][h]
	above := func(s int) uint64 { return axis[min(max(b.point[s]-shift, 0), int32(len(axis)-1))] }

	share := uint64(1<<parametricLog - b.tokens)
	left := 1 << parametricLog
	here := uint64(one) // S of token s
	for s := 0; s < b.tokens; {
		end := s + 1
		if b.shared && s > 0 {
			for end < b.tokens && b.point[end] == b.point[s] {
				end++
			}
		}
		next := uint64(0)
		if end < b.tokens {
			next = above(end)
		}
		w := here - min(here, next)
		if end > s+1 {
			w /= uint64(end - s)
		}
		f := 1 + int(w*share>>32)
		for ; s < end; s++ {
			freq[s] = uint16(f)
			left -= f
		}
		here = next
	}
	freq[argmax(freq)] += uint16(left)
}

// familyRow is one distribution with the cost of each token in units of 2^-16 bit.
type familyRow struct {
	freq []uint16
	cost []uint32
}

func newFamilyRow(b *bounds, shape uint8, sc int) *familyRow {
	r := &familyRow{freq: make([]uint16, b.tokens), cost: make([]uint32, b.tokens)}
	b.frequencies(r.freq, shape, sc)
	costs(r.cost, r.freq)
	return r
}

func costs(cost []uint32, freq []uint16) {
	for s, f := range freq {
		cost[s] = uint32(parametricLog*oneBit - Log2(uint64(f)))
	}
}

// family caches rows for one set of bounds; rows are computed when first asked for, by whoever comes first.
type family struct {
	bounds bounds
	rows   [shapes][scales]atomic.Pointer[familyRow]
}

func (f *family) row(shape uint8, sc int) *familyRow {
	sc = min(max(sc, minScale), maxScale)
	slot := &f.rows[shape][sc-minScale]
	if r := slot.Load(); r != nil {
		return r
	}
	r := newFamilyRow(&f.bounds, shape, sc)
	slot.Store(r) // two at the same time: the later one stays, with the same frequencies
	return r
}
