package model

import "math/bits"

const (
	maxBuilt        = 32 // clusters the canonical encoder keeps (section 22)
	clusterOverhead = 12 // bits section 22 charges for a cluster
)

// tokenSet has a bit for each token.
type tokenSet [MaxTokens / 64]uint64

// all yields the tokens in order.
func (s *tokenSet) all(yield func(token uint8) bool) {
	for w, set := range s {
		for ; set != 0; set &= set - 1 {
			if !yield(uint8(w<<6 | bits.TrailingZeros64(set))) {
				return
			}
		}
	}
}

// row is one cluster of contexts while clusters are being merged.
type row struct {
	first int // lowest context
	total uint64
	xlog  uint64   // XLog(total)
	set   tokenSet // tokens with a count; count and xlogs are only valid there
	count [MaxTokens]uint32
	xlogs [MaxTokens]uint64 // XLog(count)
}

func (r *row) add(token uint8, count uint32) {
	bit := uint64(1) << (token & 63)
	if r.set[token>>6]&bit != 0 {
		count += r.count[token]
	}
	r.set[token>>6] |= bit
	r.count[token] = count
	r.xlogs[token] = XLog(uint64(count))
}

// entropy returns xlog(total) - sum xlog(count).
func (r *row) entropy() uint64 {
	sum := r.xlog
	for t := range r.set.all {
		sum -= r.xlogs[t]
	}
	return sum
}

func (r *row) cells() (n int) {
	for _, set := range r.set {
		n += bits.OnesCount64(set)
	}
	return n
}

// cost is the cost of a cluster in section 22, with weights of p mantissa bits.
func (r *row) cost(p int) uint64 {
	return r.entropy() + uint64(clusterOverhead+(p+2)*r.cells())*oneBit
}

// gain returns cost(a) + cost(b) - cost(a + b). Tokens that only one of the two has cancel out.
func gain(a, b *row, p int) int64 {
	sum := a.xlog + b.xlog - XLog(a.total+b.total) + clusterOverhead*oneBit
	perCell := uint64(p+2) * oneBit
	var both tokenSet
	for w := range both {
		both[w] = a.set[w] & b.set[w]
	}
	for t := range both.all {
		sum += XLog(uint64(a.count[t])+uint64(b.count[t])) - a.xlogs[t] - b.xlogs[t] + perCell
	}
	return int64(sum)
}

// merge adds b to a.
func merge(a, b *row) {
	a.total += b.total
	a.xlog = XLog(a.total)
	for t := range b.set.all {
		a.add(t, b.count[t])
	}
}

// load makes one row of each occupied context.
func (b *builder) load(cells []cell) {
	b.rows = b.rows[:0]
	for i := 0; i < len(cells); {
		if len(b.rows) == cap(b.rows) {
			b.rows = append(b.rows, row{})
		} else {
			b.rows = b.rows[:len(b.rows)+1]
		}
		r := &b.rows[len(b.rows)-1]
		r.first = cells[i].context()
		r.set = tokenSet{}
		r.total = 0
		for ; i < len(cells) && cells[i].context() == r.first; i++ {
			r.add(cells[i].token(), cells[i].count)
			r.total += uint64(cells[i].count)
		}
		r.xlog = XLog(r.total)
	}
}

// cluster merges neighbours while that saves bits, and down to maxBuilt clusters (section 22). live lists the rows left, in
// order of their contexts.
func (b *builder) cluster(p int) {
	b.live = b.live[:0]
	b.gains = b.gains[:0]
	for i := range b.rows {
		b.live = append(b.live, &b.rows[i])
		if i > 0 {
			b.gains = append(b.gains, gain(&b.rows[i-1], &b.rows[i], p))
		}
	}
	for len(b.gains) > 0 {
		best := 0
		for i, g := range b.gains {
			if g > b.gains[best] {
				best = i
			}
		}
		if b.gains[best] < 0 && len(b.live) <= maxBuilt {
			return
		}
		merge(b.live[best], b.live[best+1])
		b.live = append(b.live[:best+1], b.live[best+2:]...)
		b.gains = append(b.gains[:best], b.gains[best+1:]...)
		if best > 0 {
			b.gains[best-1] = gain(b.live[best-1], b.live[best], p)
		}
		if best < len(b.gains) {
			b.gains[best] = gain(b.live[best], b.live[best+1], p)
		}
	}
}

// contextMap gives each context the cluster of the nearest occupied context at or before it, else the first.
func (b *builder) contextMap(contexts int) []uint8 {
	m := make([]uint8, contexts)
	k := 0
	for c := range m {
		if k+1 < len(b.live) && b.live[k+1].first == c {
			k++
		}
		m[c] = uint8(k)
	}
	return m
}
