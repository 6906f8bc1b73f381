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
	first int  // lowest context
	into  *row // what it was merged into, nil if it is a cluster
	total uint64

	number uint8    // of the cluster, see contextMap
	xlog   uint64   // XLog(total)
	set    tokenSet // tokens with a count; count and xlogs are only valid there
	count  [MaxTokens]uint32
	xlogs  [MaxTokens]uint64 // XLog(count)
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
	b.into = a
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
		r.into = nil
		r.set = tokenSet{}
		r.total = 0
		for ; i < len(cells) && cells[i].context() == r.first; i++ {
			r.add(cells[i].token(), cells[i].count)
			r.total += uint64(cells[i].count)
		}
		r.xlog = XLog(r.total)
	}
}

// all lists the rows.
func (b *builder) all() []*row {
	b.live = b.live[:0]
	for i := range b.rows {
		b.live = append(b.live, &b.rows[i])
	}
	return b.live
}

// cluster merges neighbours in live, which is in order of contexts, while that saves bits or more than most are left
// (section 22), and returns the rows left.
func (b *builder) cluster(live []*row, p, most int) []*row {
	b.gains = b.gains[:0]
	for i := 1; i < len(live); i++ {
		b.gains = append(b.gains, gain(live[i-1], live[i], p))
	}
	for len(b.gains) > 0 {
		best := 0
		for i, g := range b.gains {
			if g > b.gains[best] {
				best = i
			}
		}
		if b.gains[best] < 0 && len(live) <= most {
			break
		}
		merge(live[best], live[best+1])
		live = append(live[:best+1], live[best+2:]...)
		b.gains = append(b.gains[:best], b.gains[best+1:]...)
		if best > 0 {
			b.gains[best-1] = gain(live[best-1], live[best], p)
		}
		if best < len(b.gains) {
			b.gains[best] = gain(live[best], live[best+1], p)
		}
	}
	return live
}

// contextMap gives each context the cluster of the nearest occupied context at or before it, else the first.
func (b *builder) contextMap(contexts int) []uint8 {
	for k, r := range b.live {
		r.number = uint8(k)
	}
	m := make([]uint8, contexts)
	next, current := 0, uint8(0)
	for c := range m {
		if next < len(b.rows) && b.rows[next].first == c {
			current = b.rows[next].cluster().number
			next++
		}
		m[c] = current
	}
	return m
}

// cluster is what became of the row.
func (r *row) cluster() *row {
	for r.into != nil {
		r = r.into
	}
	return r
}
