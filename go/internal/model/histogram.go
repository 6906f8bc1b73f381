package model

import "math/bits"

// MaxTokens and MaxContexts bound a histogram (FORMAT.md sections 9 and 14).
const (
	MaxTokens   = 256
	MaxContexts = 256

	// A lane counter is a uint32, so counters move to 64 bits before this many values have been counted.
	spillLimit = 1 << 31

	// Up to this many values a context, Add notes which cells it touches, so that reading and clearing the histogram costs
	// what it holds and not what it could hold.
	sparseLimit = 128
)

// counters are four counters for each place. Consecutive values use different ones: repeated increments of one counter would
// wait for each other through memory. A uint16 cannot leave an array, and the gaps keep the four counters of a place, which
// are used together, out of each other's way in the cache.
type counters struct {
	a [1 << 16]uint32
	_ [17 * 16]uint32
	b [1 << 16]uint32
	_ [17 * 16]uint32
	c [1 << 16]uint32
	_ [17 * 16]uint32
	d [1 << 16]uint32
}

func (c *counters) sum(place uint16) uint64 {
	return uint64(c.a[place]) + uint64(c.b[place]) + uint64(c.c[place]) + uint64(c.d[place])
}

// Cell is one non-zero counter, its place context<<8 | token.
type cell struct {
	place uint16
	count uint32
}

func (c cell) context() int { return int(c.place >> 8) }
func (c cell) token() uint8 { return uint8(c.place) }

// Histogram counts pairs of context and token. The zero value needs a Reset; memory is kept for the next Reset. It is not
// safe for concurrent use.
type Histogram struct {
	contexts, tokens int

	count   *counters // by place: counted since the last spill
	counted uint64    // values in count
	touched []uint64  // one bit a place, complete unless dense
	dense   bool

	spilled []uint64 // older counts by place, valid if older > 0
	older   uint64   // values in spilled
	limit   uint64   // spillLimit, lower in tests

	cells  []cell // see list
	listed bool
}

// Reset empties the histogram for a number of contexts (1 .. 256) and tokens (1 .. 256).
func (h *Histogram) Reset(contexts, tokens int) {
	h.clear()
	h.older = 0
	h.listed = false
	h.contexts, h.tokens = contexts, tokens
	if h.limit == 0 {
		h.limit = spillLimit
	}
	if h.count == nil {
		h.count = new(counters)
	}
	// All of touched is 0 after clear, also beyond its length.
	h.touched = resized(h.touched, contexts*MaxTokens/64)
}

// resized returns a slice of n elements, in the memory of s if that is large enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// clear zeroes count and touched.
func (h *Histogram) clear() {
	switch {
	case h.dense:
		n := h.contexts * MaxTokens
		clear(h.count.a[:n])
		clear(h.count.b[:n])
		clear(h.count.c[:n])
		clear(h.count.d[:n])
		clear(h.touched)
	case h.counted > 0:
		for w, set := range h.touched {
			for ; set != 0; set &= set - 1 {
				h.count.a[uint16(w<<6|bits.TrailingZeros64(set))] = 0
			}
			h.touched[w] = 0
		}
	}
	h.dense = false
	h.counted = 0
}

// Add counts the values ix, each context<<8 | token with a context and token below those of Reset.
func (h *Histogram) Add(ix []uint16) {
	h.listed = false
	for len(ix) > 0 {
		if h.counted >= h.limit {
			h.spill()
		}
		n := int(min(uint64(len(ix)), h.limit-h.counted))
		h.counted += uint64(n)
		if !h.dense && h.counted > uint64(sparseLimit*h.contexts) {
			h.dense = true
		}
		if h.dense {
			countDense(h.count, ix[:n])
		} else {
			countSparse(h.count, h.touched, ix[:n])
		}
		ix = ix[n:]
	}
}

// countDense counts four values at a time: as fast as a counter can be stored each cycle.
func countDense(count *counters, ix []uint16) {
	for ; len(ix) >= 4; ix = ix[4:] {
		count.a[ix[0]]++
		count.b[ix[1]]++
		count.c[ix[2]]++
		count.d[ix[3]]++
	}
	for _, place := range ix {
		count.a[place]++
	}
}

// countSparse uses one counter a place and notes it in touched.
func countSparse(count *counters, touched []uint64, ix []uint16) {
	for _, place := range ix {
		count.a[place]++
		touched[place>>6] |= 1 << (place & 63)
	}
}

// AddCount counts token n times in context.
func (h *Histogram) AddCount(context, token int, n uint64) {
	if n == 0 {
		return
	}
	h.listed = false
	place := context<<8 | token
	if n <= h.limit-min(h.limit, h.counted) {
		h.count.a[uint16(place)] += uint32(n)
		h.touched[place>>6] |= 1 << (place & 63)
		h.counted += n
		return
	}
	h.spill()
	h.spilled[place] += n
	h.older += n
}

// spill moves the counters into 64-bit ones.
func (h *Histogram) spill() {
	if h.older == 0 {
		h.spilled = resized(h.spilled, h.contexts*MaxTokens)
		clear(h.spilled)
	}
	for place := range h.spilled {
		h.spilled[place] += h.count.sum(uint16(place))
	}
	h.older += h.counted
	h.clear()
}

// Merge adds the counts of o, which must have the same numbers of contexts and tokens.
func (h *Histogram) Merge(o *Histogram) {
	if o.Total() == 0 {
		return
	}
	h.listed = false
	h.spill()
	for place := range h.spilled {
		h.spilled[place] += o.at(place)
	}
	h.older += o.Total()
}

// Total returns the number of values counted.
func (h *Histogram) Total() uint64 { return h.older + h.counted }

// Count returns how often token was counted in context.
func (h *Histogram) Count(context, token int) uint64 { return h.at(context<<8 | token) }

// TokenCount returns how often token was counted in all contexts.
func (h *Histogram) TokenCount(token int) (sum uint64) {
	for context := range h.contexts {
		sum += h.Count(context, token)
	}
	return sum
}

func (h *Histogram) at(place int) uint64 {
	n := h.count.sum(uint16(place))
	if h.older > 0 {
		n += h.spilled[place]
	}
	return n
}

// list returns the cells that are not 0, by context and token, and the sum of their counts. A total of 2^32 or more is
// halved until it is below, each count rounded up (section 20). The result holds until the next Reset, Add or Merge.
func (h *Histogram) list() (cells []cell, total uint64) {
	if !h.listed {
		h.collect()
		h.listed = true
	}
	return h.cells, h.listTotal()
}

func (h *Histogram) listTotal() (total uint64) {
	for _, c := range h.cells {
		total += uint64(c.count)
	}
	return total
}

func (h *Histogram) collect() {
	h.cells = h.cells[:0]
	if !h.dense && h.older == 0 {
		for w, set := range h.touched {
			for ; set != 0; set &= set - 1 {
				place := uint16(w<<6 | bits.TrailingZeros64(set))
				h.cells = append(h.cells, cell{place, h.count.a[place]})
			}
		}
		return
	}
	halve := h.halvings()
	for context := range h.contexts {
		for token := range h.tokens {
			place := context<<8 | token
			if n := h.at(place); n > 0 {
				for range halve {
					n = (n + 1) / 2
				}
				h.cells = append(h.cells, cell{uint16(place), uint32(n)})
			}
		}
	}
}

// halvings returns how often the counts have to be halved for a total below 2^32.
func (h *Histogram) halvings() (times int) {
	for total := h.Total(); total >= 1<<32; times++ {
		total = 0
		for place := range h.contexts * MaxTokens {
			n := h.at(place)
			for range times + 1 {
				n = (n + 1) / 2
			}
			total += n
		}
	}
	return times
}
