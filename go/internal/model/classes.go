package model

// classGain is the share of the cost without classes, one part in so many, that the entropy has to fall by for clusters with
// classes to be made at all.
const classGain = 64

// BuildClassed chooses the tables for a tensor whose rows or columns have classes (FORMAT.md section 35): clusters of contexts
// class * 32 + exponent context if these and the list of classes cost less than the clusters of the exponent contexts alone,
// else nil; then h is made to count without classes, for Build. spec has context part 3.
func BuildClassed(h *Histogram, spec ParamSpec, list []uint8) *Tables {
	b := builders.Get().(*builder)
	defer builders.Put(b)
	cells, total := h.list()
	b.classed = append(b.classed[:0], cells...)
	h.Flatten()
	flat, _ := h.list()
	p := codeMantissa(total)
	b.load(flat)
	entropy := b.entropy()
	b.live = b.cluster(b.all(), p, maxBuilt)
	without, lists := b.cost(p), listBits(list, spec.Classes)*oneBit

	b.load(b.classed)
	if total == 0 || b.entropy()+lists+without/classGain >= entropy {
		return nil
	}
	b.clusterClassed(p)
	if b.cost(p)+lists >= without {
		return nil
	}
	t := b.own(b.contextMap(spec.Contexts()), spec.A, total, p)
	t.Classes, t.ClassList = spec.Classes, list
	return t
}

// Flatten adds the classes up: the histogram counts exponent contexts from then on.
func (h *Histogram) Flatten() {
	cells, _ := h.list()
	flat := make([]cell, len(cells))
	copy(flat, cells)
	h.Reset(exponentContexts, h.tokens)
	for _, c := range flat {
		h.AddCount(c.context()%exponentContexts, int(c.token()), uint64(c.count))
	}
}

// entropy is that of the rows.
func (b *builder) entropy() (sum uint64) {
	for i := range b.rows {
		sum += b.rows[i].entropy()
	}
	return sum
}

// listBits is what section 35 charges for a list of classes.
func listBits(list []uint8, classes int) uint64 {
	var count [MaxClasses]uint64
	for _, class := range list {
		count[class]++
	}
	bits16 := XLog(uint64(len(list)))
	for _, k := range count[:classes] {
		bits16 -= XLog(k)
	}
	return bits16>>logFracBits + 64
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
