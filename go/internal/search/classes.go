package search

// Weight of the context's exponent against the token in the measure of a lane value: a token has four steps to an octave.
const contextWeight = 4

// measure is how large a lane value is coded: ix is context<<8 | token (FORMAT.md section 35).
func measure(ix uint16) uint64 { return uint64(ix&0xff) + contextWeight*uint64(ix>>8) }

// changeShare is the share of lane values, one in so many, that have to differ from their reference for classes to pay: the
// gaps of sparse chunks tell most of what rows would.
const changeShare = 16

// RowsDiffer reports whether the runs of the sample, of run lane values each, differ in measure by more than chance: four
// times the variance that their lane values let expect. ix holds context<<8 | token (section 35).
func RowsDiffer(ix []uint16, run int) bool {
	n := uint64(len(ix) / run)
	var sum, squares, all, changed uint64
	for len(ix) >= run {
		m := uint64(0)
		for _, v := range ix[:run] {
			x := measure(v)
			m += x
			all += x * x
			if v&0xff != 0 {
				changed++
			}
		}
		sum += m
		squares += m * m
		ix = ix[run:]
	}
	// The variance of the runs' sums is (n squares - sum^2) / n^2, that of a lane value within its run
	// (run all - squares) / (run^2 n), and a sum of run values has run times that.
	between := n*squares - sum*sum
	within := uint64(run)*all - squares
	return between*uint64(run) > 4*within*n && changed*changeShare > n*uint64(run)
}

// meanScale is the resolution of a row's mean measure.
const meanScale = 16

// maxMean bounds a mean: a token of at most 255 and a context of at most 31.
const maxMean = meanScale*(255+contextWeight*31) + 1

// RowMean returns the mean measure of lane values of a row, in 1/16.
func RowMean(ix []uint16) uint16 {
	sum := uint64(0)
	for _, v := range ix {
		sum += measure(v)
	}
	return uint16(meanScale * sum / uint64(len(ix)))
}

const (
	maxClasses = 8
	rounds     = 8
)

// Classes sorts rows by their means into at most 8 classes (section 35: k-means in one dimension, in integers). It returns
// the class of each row and the number of classes, all of which occur.
func Classes(means []uint16) (list []uint8, n int) {
	k := newMeans(means)
	centres := k.startCentres(len(means))
	for range rounds {
		var sum, size [maxClasses]uint64
		for i, m := range k.values {
			c := nearest(m, &centres)
			sum[c] += m * k.counts[i]
			size[c] += k.counts[i]
		}
		for c := range centres {
			if size[c] > 0 {
				centres[c] = sum[c] / size[c]
			}
		}
	}
	var occurs [maxClasses]bool
	for _, m := range k.values {
		occurs[nearest(m, &centres)] = true
	}
	var number [maxClasses]uint8
	for c := range occurs {
		if occurs[c] {
			number[c] = uint8(n)
			n++
		}
	}
	var class [maxMean]uint8
	for _, m := range k.values {
		class[m] = number[nearest(m, &centres)]
	}
	list = make([]uint8, len(means))
	for row, m := range means {
		list[row] = class[m]
	}
	return list, n
}

// distinctMeans are the means of rows, each once, rising, with the number of rows that have it.
type distinctMeans struct{ values, counts []uint64 }

func newMeans(means []uint16) (k distinctMeans) {
	var count [maxMean]uint32
	for _, m := range means {
		count[m]++
	}
	for m, rows := range count {
		if rows > 0 {
			k.values, k.counts = append(k.values, uint64(m)), append(k.counts, uint64(rows))
		}
	}
	return k
}

// startCentres returns the means at the middles of eighths of the rows.
func (k *distinctMeans) startCentres(rows int) (centres [maxClasses]uint64) {
	seen, c := 0, 0
	for i, m := range k.values {
		seen += int(k.counts[i])
		for c < maxClasses && (2*c+1)*rows/(2*maxClasses) < seen {
			centres[c] = m
			c++
		}
	}
	return centres
}

// nearest is the centre nearest to a mean, the first on ties.
func nearest(mean uint64, centres *[maxClasses]uint64) (best int) {
	for c := range centres {
		if apart(centres[c], mean) < apart(centres[best], mean) {
			best = c
		}
	}
	return best
}

// apart is the distance of a mean to a centre.
func apart(centre, mean uint64) uint64 { return max(centre, mean) - min(centre, mean) }
