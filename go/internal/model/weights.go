package model

import "math/bits"

// weightTop is the weight of the largest count before it is quantised (section 22).
const weightTop = 1 << 15

// maxCode returns the largest weight code with p mantissa bits (section 10).
func maxCode(p int) int { return (16 - p) << p }

// weightCode quantises count >= 1 against the largest count of its cluster (section 22, "Weight codes").
func weightCode(count, largest uint32, p int) uint8 {
	v := max(1<<p, uint64(count)*weightTop/uint64(largest))
	e := bits.Len64(v) - 1 - p
	if e > 0 {
		v += 1 << (e - 1)
		e = bits.Len64(v) - 1 - p
	}
	return uint8(e<<p + int(v>>e) - 1<<p + 1)
}

// weight returns W(q) of section 10, below 2^16.
func weight(q uint8, p int) uint32 {
	if q == 0 {
		return 0
	}
	mantissa := uint32(q-1) & (1<<p - 1)
	return (1<<p + mantissa) << ((q - 1) >> p)
}

// normalize fills freq with the frequencies of the weight codes, which sum to 2^tableLog (section 10, "Normalisation"). At
// least one code is not 0, len(freq) = len(codes) is at least 2, and at most 2^tableLog.
func normalize(freq []uint16, codes []uint8, p, tableLog int) {
	var weights [MaxTokens]uint32
	total := uint32(0) // at most 2^8 weights below 2^16
	used, last := 0, 0
	for s, q := range codes {
		w := weight(q, p)
		weights[s] = w
		total += w
		if w != 0 {
			used++
			last = s
		}
	}
	m := uint32(1) << tableLog
	if used == 1 {
		clear(freq)
		other := 0
		if last == 0 {
			other = 1
		}
		freq[other] = 1
		freq[last] = uint16(m - 1)
		return
	}
	sum := uint32(0)
	for s := range freq {
		f := uint32(0)
		if w := weights[s]; w != 0 {
			f = max(1, (w<<tableLog+total/2)/total) // below 2^28 + 2^23
			sum += f
		}
		freq[s] = uint16(f)
	}
	for sum > m {
		s := argmax(freq)
		cut := min(sum-m, uint32(freq[s])-1)
		freq[s] -= uint16(cut)
		sum -= cut
	}
	freq[argmax(freq)] += uint16(m - sum)
}

// argmax returns the index of the largest frequency, the lowest one on ties.
func argmax(freq []uint16) (at int) {
	for s, f := range freq {
		if f > freq[at] {
			at = s
		}
	}
	return at
}

// codes fills the weight codes of a cluster; codes is zeroed.
func (r *row) codes(codes []uint8, p int) {
	most := uint32(0)
	for t := range r.set.all {
		most = max(most, r.count[t])
	}
	for t := range r.set.all {
		codes[t] = weightCode(r.count[t], most, p)
	}
}

// ChangedRows returns, for each cluster of own tables, the frequencies of the tokens other than 0 under the condition that
// the token is none (FORMAT.md section 18); they sum to 2^log. A cluster with token 0 alone has nil.
func (t *Tables) ChangedRows(log int) [][]uint16 {
	rows := make([][]uint16, len(t.Codes))
	for k, codes := range t.Codes {
		var changed [MaxTokens]uint8
		n := copy(changed[:], codes)
		changed[0] = 0
		if changed == [MaxTokens]uint8{} {
			continue
		}
		rows[k] = make([]uint16, n)
		normalize(rows[k], changed[:n], t.P, log)
	}
	return rows
}

// GapScale returns the scale of the shape-0 row for the gaps of a cluster of which changed lane values are changed and same
// are not (section 18).
func GapScale(changed, same uint64) int {
	share := same << 32 / (changed + same)
	for sc := minScale; sc < maxScale; sc++ {
		if 2*share <= unit(sc)+unit(sc+1) {
			return sc
		}
	}
	return maxScale
}

// unit is S of shape 0 at 1 for a scale.
func unit(sc int) uint64 {
	h := sc & 1
	axis := &survival[0][h]
	return axis[min(max(-mantissas*((sc+h)/2+firstJ), 0), len(axis)-1)]
}
