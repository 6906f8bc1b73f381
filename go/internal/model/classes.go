package model

// Classing is how the rows or columns of a tensor are told apart: a class for each.
type Classing struct {
	N    int // classes
	List []uint8
}

// halved joins neighbouring classes.
func (c *Classing) halved() *Classing {
	h := &Classing{N: (c.N + 1) / 2, List: make([]uint8, len(c.List))}
	for i, class := range c.List {
		h.List[i] = class / 2
	}
	return h
}

// bits is what section 35 charges for the list.
func (c *Classing) bits() uint64 {
	var count [MaxClasses]uint64
	for _, class := range c.List {
		count[class]++
	}
	bits16 := XLog(uint64(len(c.List)))
	for _, k := range count[:c.N] {
		bits16 -= XLog(k)
	}
	return bits16>>logFracBits + 64
}

// BuildClassed chooses the tables for a tensor whose rows or columns have classes (FORMAT.md section 35): clusters of
// contexts class * 32 + exponent context, with these classes, or with neighbours joined once or twice, whichever costs
// least with the list of classes; joins says how often. It returns nil if the clusters of the exponent contexts alone cost no
// more. h counts the contexts with classes; spec has context part 3.
func BuildClassed(h *Histogram, spec ParamSpec, c *Classing) (best *Tables, joins int) {
	b := builders.Get().(*builder)
	defer builders.Put(b)
	_, total := h.list()
	if total == 0 {
		return nil, 0
	}
	p := codeMantissa(total)
	b.fold(h, spec.A, func(int) int { return 0 }, 1)
	cells, _ := b.flat.list()
	b.load(cells)
	b.live = b.cluster(b.all(), p, maxBuilt)
	least := b.cost(p)
	for shift := 0; c.N > 1; shift++ {
		b.fold(h, spec.A, func(class int) int { return class >> shift }, c.N)
		cells, _ := b.flat.list()
		b.load(cells)
		b.clusterClassed(p)
		if cost := b.cost(p) + c.bits()*oneBit; cost < least {
			least = cost
			best = b.own(&b.flat, b.contextMap(b.flat.contexts), total, p)
			best.Classes, best.ClassList, joins = c.N, c.List, shift
		}
		c = c.halved()
	}
	return best, joins
}

// fold counts h again with other classes.
func (b *builder) fold(h *Histogram, tokens int, to func(class int) int, classes int) {
	b.flat.Reset(classes*exponentContexts, tokens)
	cells, _ := h.list()
	for _, c := range cells {
		class, context := c.context()/exponentContexts, c.context()%exponentContexts
		b.flat.AddCount(to(class)*exponentContexts+context, int(c.token()), uint64(c.count))
	}
}

// Flatten adds the classes of h up: it then counts exponent contexts.
func (h *Histogram) Flatten() {
	cells, _ := h.list()
	cells = append([]cell(nil), cells...)
	h.Reset(exponentContexts, h.tokens)
	for _, c := range cells {
		h.AddCount(c.context()%exponentContexts, int(c.token()), uint64(c.count))
	}
}

// clusterClassed merges neighbours within each class, then any two clusters (section 35).
func (b *builder) clusterClassed(p int) {
	rows := b.all()
	live := rows[:0]
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].first/exponentContexts == rows[0].first/exponentContexts {
			n++
		}
		live = append(live, b.cluster(rows[:n:n], p, n)...)
		rows = rows[n:]
	}
	b.live = b.mergePairs(live, p)
}

// mergePairs merges the pair i < j with the largest gain, the first on ties, while that saves bits or more than maxBuilt
// clusters are left.
func (b *builder) mergePairs(live []*row, p int) []*row {
	n := len(live)
	b.pairs = resized(b.pairs, n*n)
	at := func(i, j int) *int64 { return &b.pairs[i*n+j] }
	for j := range live {
		for i := range j {
			*at(i, j) = gain(live[i], live[j], p)
		}
	}
	gone := make([]bool, n)
	for left := n; left > 1; left-- {
		bi, bj := -1, -1
		for i := range live {
			for j := i + 1; j < n && !gone[i]; j++ {
				if !gone[j] && (bi < 0 || *at(i, j) > *at(bi, bj)) {
					bi, bj = i, j
				}
			}
		}
		if *at(bi, bj) < 0 && left <= maxBuilt {
			break
		}
		merge(live[bi], live[bj])
		gone[bj] = true
		for k := range live {
			switch {
			case gone[k] || k == bi:
			case k < bi:
				*at(k, bi) = gain(live[k], live[bi], p)
			default:
				*at(bi, k) = gain(live[bi], live[k], p)
			}
		}
	}
	kept := live[:0]
	for i, r := range live {
		if !gone[i] {
			kept = append(kept, r)
		}
	}
	return kept
}
