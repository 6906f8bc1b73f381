package model

// BuildClassed chooses the tables for a tensor whose rows or columns have classes (FORMAT.md section 35): clusters of
// contexts class * 32 + exponent context if these, with listBits for the list of classes, cost less than the clusters of the
// exponent contexts alone, which otherwise are what it returns, as Build does. h counts the former; spec has context part 3.
func BuildClassed(h *Histogram, spec ParamSpec, list []uint8, listBits uint64) (t *Tables, classed bool) {
	b := builders.Get().(*builder)
	defer builders.Put(b)
	flat := &b.flat
	flat.Reset(exponentContexts, spec.A)
	cells, total := h.list()
	for _, c := range cells {
		flat.AddCount(c.context()%exponentContexts, int(c.token()), uint64(c.count))
	}
	p := codeMantissa(total)
	flatCells, _ := flat.list()
	b.load(flatCells)
	b.live = b.cluster(b.all(), p, maxBuilt)
	without := b.cost(p)

	b.load(cells)
	b.clusterClassed(p)
	if total == 0 || b.cost(p)+listBits*oneBit >= without {
		spec.ContextPart, spec.Classes = contextExponent, 0
		return Build(flat, spec), false
	}
	t = b.own(h, b.contextMap(h.contexts), total, p)
	t.Classes, t.ClassList = spec.Classes, list
	return t, true
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
