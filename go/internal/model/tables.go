package model

import "sync"

// ParamSpec is what tables depend on besides counts: fields of a coded tensor's header (FORMAT.md section 7) and of its
// dtype.
type ParamSpec struct {
	Map         uint8  // token map
	K           int    // bits of the raw plane
	T           int    // token map 1: bits of z below the token
	MantBits    int    // mantissa bits of the dtype, for token map 1
	Base        uint64 // token map 1: lowest z >> T
	ContextPart uint8
	Classes     int // context part 3: classes of rows or columns
	A           int // tokens, 2 .. 256
}

// Context parts of FORMAT.md section 7.
const (
	contextNone     = 0
	contextExponent = 1
	contextByte     = 2
	contextClass    = 3
)

// exponentContexts is the number of contexts that an exponent field gives.
const exponentContexts = 32

// Contexts returns the number of contexts of the context part (section 9).
func (s *ParamSpec) Contexts() int {
	switch s.ContextPart {
	case contextNone:
		return 1
	case contextByte:
		return 256
	case contextClass:
		return s.Classes * exponentContexts
	default:
		return exponentContexts
	}
}

// Tables are the frequency tables of a coded tensor: a table of A frequencies for each cluster, and the cluster of each
// context. They are read-only once built; parametric rows may be shared between Tables.
type Tables struct {
	TableLog   int        // the frequencies of a cluster sum to 1 << TableLog
	ContextMap []uint8    // cluster of each context
	Freq       [][]uint16 // by cluster and token

	P     int       // own tables: mantissa bits of the weight codes
	Codes [][]uint8 // own tables: weight codes by cluster and token

	Classes   int     // context part 3: number of classes, else 0
	ClassList []uint8 // context part 3: class of each row or column

	// Bits16 is the ideal length of Total tokens under tables that were built, in units of 2^-16 bit. Total is that of the
	// histogram, after halving. Tables that were read do not have them.
	Bits16, Total uint64

	Parametric   bool
	Shape, Slope uint8
	Scale        int
}

// newTables returns own tables with zeroed codes and frequencies.
func newTables(contextMap []uint8, clusters, tokens, p, tableLog int) *Tables {
	t := &Tables{
		TableLog:   tableLog,
		ContextMap: contextMap,
		Freq:       make([][]uint16, clusters),
		P:          p,
		Codes:      make([][]uint8, clusters),
	}
	freq := make([]uint16, clusters*tokens)
	codes := make([]uint8, clusters*tokens)
	for k := range clusters {
		t.Freq[k] = freq[k*tokens : (k+1)*tokens : (k+1)*tokens]
		t.Codes[k] = codes[k*tokens : (k+1)*tokens : (k+1)*tokens]
	}
	return t
}

// Thresholds of section 22.
const (
	smallTotal      = 1 << 13 // below: one mantissa bit a weight
	mediumTotal     = 1 << 18 // below: two, from here on three
	parametricTotal = 1 << 14 // up to here parametric tables are tried
	wideTableRate   = oneBit + oneBit/2
	wideTableLog    = 12
	tableLog        = 11

	ownOverhead        = 24 * oneBit
	parametricOverhead = 16 * oneBit
)

// builder is the scratch memory of Build.
type builder struct {
	rows  []row
	live  []*row
	gains []int64
	pairs []int64 // gains of all pairs, see mergePairs

	classed []cell // see BuildClassed

	pooled []cell // cells added up over the contexts
	costs  costRows
}

var builders = sync.Pool{New: func() any { return new(builder) }}

// Build chooses the tables for a tensor with the histogram h (FORMAT.md section 22): contexts clustered and weights
// quantised, or a member of the parametric family where that is estimated smaller. h must be Reset with spec.Contexts()
// and spec.A. An empty histogram gives tables that can code nothing but token 0 well. Build is safe for concurrent use with
// distinct h.
func Build(h *Histogram, spec ParamSpec) *Tables {
	cells, total := h.list()
	if total == 0 {
		cells, total = []cell{{count: 1}}, 1
	}
	b := builders.Get().(*builder)
	defer builders.Put(b)

	p := codeMantissa(total)
	b.load(cells)
	b.live = b.cluster(b.all(), p, maxBuilt)
	if total <= parametricTotal && spec.hasFamily() {
		if t := b.bestParametric(cells, total, &spec, b.cost(p)+ownOverhead); t != nil {
			return t
		}
	}
	return b.own(b.contextMap(h.contexts), h.tokens, total, p)
}

// codeMantissa is p of section 22 for a total of counts.
func codeMantissa(total uint64) int {
	switch {
	case total < smallTotal:
		return 1
	case total < mediumTotal:
		return 2
	}
	return 3
}

// cost is the cost of the clusters in live (section 22).
func (b *builder) cost(p int) (sum uint64) {
	for _, r := range b.live {
		sum += r.cost(p)
	}
	return sum
}

// own returns own tables of the clusters in live.
func (b *builder) own(contextMap []uint8, tokens int, total uint64, p int) *Tables {
	entropy := uint64(0)
	for _, r := range b.live {
		entropy += r.entropy()
	}
	log := tableLog
	if entropy < wideTableRate*total {
		log = wideTableLog
	}
	t := newTables(contextMap, len(b.live), tokens, p, log)
	t.Bits16, t.Total = entropy, total
	for k, r := range b.live {
		r.codes(t.Codes[k], p)
		normalize(t.Freq[k], t.Codes[k], p, log)
	}
	return t
}
