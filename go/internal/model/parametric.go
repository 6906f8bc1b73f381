package model

import (
	"math/bits"
	"sync/atomic"
)

// families are the cached families: one for token map 2, and for token map 0 one for each width and K. Token map 1 has a
// family for each alphabet and place of the base in its octave, too many to keep.
var families [1 + 3*7]atomic.Pointer[family]

// familyIndex returns the place of spec in families, or -1.
func familyIndex(spec *ParamSpec) int {
	switch {
	case spec.Map == 2 && spec.A == MaxTokens:
		return 0
	case spec.Map != 0 || spec.K < 0 || spec.K > 48 || spec.K%8 != 0:
		return -1
	}
	width := (spec.A-8)/4 + spec.K + 3 // section 8: A = 4 (w - K - 3) + 8
	for i, w := range [...]int{16, 32, 64} {
		if w == width && spec.A%4 == 0 {
			return 1 + 7*i + spec.K/8
		}
	}
	return -1
}

// familyOf returns the cached family of spec, or nil.
func familyOf(spec *ParamSpec) *family {
	at := familyIndex(spec)
	if at < 0 {
		return nil
	}
	if f := families[at].Load(); f != nil {
		return f
	}
	f := new(family)
	f.bounds.init(spec)
	families[at].Store(f) // two at the same time: the later one stays, with the same rows
	return f
}

// FreeMemory drops the cached rows, at most some 12 MB. Rows that were handed out stay valid.
func FreeMemory() {
	for i := range families {
		families[i].Store(nil)
	}
}

// ParametricRow returns the frequencies, which sum to 2^12, of a shape (0 .. 4) at scale sc, limited to -32 .. 160
// (FORMAT.md section 10). The row is shared: do not write to it. It is safe for concurrent use.
func ParametricRow(shape uint8, sc int, spec ParamSpec) []uint16 {
	if f := familyOf(&spec); f != nil {
		return f.row(shape, sc).freq
	}
	var b bounds
	b.init(&spec)
	freq := make([]uint16, spec.A)
	b.frequencies(freq, shape, sc)
	return freq
}

// ParametricTables returns the tables of a member of the family (FORMAT.md section 10); the arguments must have passed
// CheckParametric. Contexts with the same row share a cluster here, which decodes the same as a cluster each.
func ParametricTables(shape, slope uint8, scale int, spec ParamSpec) *Tables {
	t := &Tables{
		TableLog:   parametricLog,
		ContextMap: make([]uint8, spec.Contexts()),
		Parametric: true,
		Shape:      shape,
		Slope:      slope,
		Scale:      scale,
	}
	before := 0
	for c := range t.ContextMap {
		sc := contextScale(scale, slope, c)
		if c == 0 || sc != before {
			t.Freq = append(t.Freq, ParametricRow(shape, sc, spec))
			before = sc
		}
		t.ContextMap[c] = uint8(len(t.Freq) - 1)
	}
	return t
}

// contextScale returns the scale of context c.
func contextScale(scale int, slope uint8, c int) int {
	return min(max(scale-2*int(slope)*c, minScale), maxScale)
}

// costRows gives the cost rows of one spec to the parametric search.
type costRows struct {
	family *family // nil if rows are not cached
	bounds bounds
	freq   [MaxTokens]uint16
	cost   [MaxTokens]uint32
}

func (r *costRows) init(spec *ParamSpec) {
	r.family = familyOf(spec)
	if r.family == nil {
		r.bounds.init(spec)
	}
}

// row returns costs that hold until the next call.
func (r *costRows) row(shape uint8, sc int) []uint32 {
	if r.family != nil {
		return r.family.row(shape, sc).cost
	}
	n := r.bounds.tokens
	r.bounds.frequencies(r.freq[:n], shape, sc)
	costs(r.cost[:n], r.freq[:n])
	return r.cost[:n]
}

// bestParametric searches the family (section 22) and returns the first member with the smallest estimate, or nil unless
// that is below bound.
func (b *builder) bestParametric(cells []cell, total uint64, spec *ParamSpec, bound uint64) *Tables {
	b.costs.init(spec)
	contexts := b.pool(cells)
	middle := b.middleScales(spec, contexts, total)
	var best struct {
		found        bool
		shape, slope uint8
		scale        int
	}
	slopes := uint8(1)
	if spec.ContextPart == contextExponent {
		slopes = 2
	}
	for shape := range uint8(shapes) {
		for slope := range slopes {
			for step := -3; step <= 3; step++ {
				scale := min(max(middle[slope]+step, minScale), maxScale)
				estimate := uint64(parametricOverhead)
				if slope == 0 {
					estimate += b.costs.sum(b.pooled, shape, scale)
				} else {
					estimate += b.costs.sloped(cells, shape, scale, bound)
				}
				if estimate < bound {
					bound = estimate
					best.found = true
					best.shape, best.slope, best.scale = shape, slope, scale
				}
			}
		}
	}
	if !best.found {
		return nil
	}
	t := ParametricTables(best.shape, best.slope, best.scale, *spec)
	t.Bits16, t.Total = bound-parametricOverhead, total
	return t
}

// pool adds up the cells over the contexts and returns the sum of the values' contexts.
func (b *builder) pool(cells []cell) (contexts uint64) {
	var count [MaxTokens]uint32 // parametric totals are small
	for _, c := range cells {
		count[c.token()] += c.count
		contexts += uint64(c.count) * uint64(c.context())
	}
	b.pooled = b.pooled[:0]
	for token, n := range count {
		if n > 0 {
			b.pooled = append(b.pooled, cell{uint16(token), n})
		}
	}
	return contexts
}

// sum returns the cost of cells under one row.
func (r *costRows) sum(cells []cell, shape uint8, scale int) (sum uint64) {
	cost := r.row(shape, scale)
	for _, c := range cells {
		sum += uint64(c.count) * uint64(cost[c.token()])
	}
	return sum
}

// sloped returns the cost of cells, each under the row of its context with slope 1; once the sum has reached bound it may
// leave out the rest.
func (r *costRows) sloped(cells []cell, shape uint8, scale int, bound uint64) (sum uint64) {
	for i := 0; i < len(cells) && sum < bound; {
		context := cells[i].context()
		cost := r.row(shape, contextScale(scale, 1, context))
		for ; i < len(cells) && cells[i].context() == context; i++ {
			sum += uint64(cells[i].count) * uint64(cost[cells[i].token()])
		}
	}
	return sum
}

// middleScales returns s* of section 22 for both slopes: twice the mean token exponent, after undoing the slope.
func (b *builder) middleScales(spec *ParamSpec, contexts, total uint64) [2]int {
	sum := uint64(0)
	for _, c := range b.pooled {
		sum += uint64(c.count) * 2 * spec.tokenExponent(c.token())
	}
	far := uint64(maxScale + 3) // from here on every scale of the search is maxScale
	return [2]int{int(min(sum/total, far)), int(min((sum+2*contexts)/total, far))}
}

// tokenExponent is the token exponent of section 22; token 0 counts 0 with every token map.
func (s *ParamSpec) tokenExponent(token uint8) uint64 {
	switch {
	case token == 0:
		return 0
	case s.Map == 1:
		return (uint64(token)-1+s.Base&3)>>2 + 1
	case s.Map == 2 || token < 8:
		return uint64(bits.Len8(token) + s.K)
	default:
		return uint64(int(token>>2) - 1 + 3 + s.K)
	}
}
