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

// Classes sorts rows by their means into at most 8 classes, numbered by rising means (section 35: k-means in one dimension,
// in integers). It returns the class of each row and the number of classes, all of which occur.
func Classes(means []uint16) (list []uint8, n int) {
	var count [maxMean]uint32
	for _, m := range means {
		count[m]++
	}
	centres := startCentres(&count, len(means))
	var class [maxMean]uint8
	for range rounds {
		nearest(&class, &centres)
		var sum, size [maxClasses]uint64
		for m, k := range count {
			sum[class[m]] += uint64(m) * uint64(k)
			size[class[m]] += uint64(k)
		}
		for i := range centres {
			if size[i] > 0 {
				centres[i] = sum[i] / size[i]
			}
		}
	}
	nearest(&class, &centres)

	// Centres rise, so that classes in the order of the means are in the order of their numbers.
	var number [maxClasses]int
	last := -1
	for m, k := range count {
		if k > 0 && int(class[m]) != last {
			last = int(class[m])
			number[last] = n
			n++
		}
	}
	list = make([]uint8, len(means))
	for row, m := range means {
		list[row] = uint8(number[class[m]])
	}
	return list, n
}

// startCentres returns the means at the middles of eighths of the rows.
func startCentres(count *[maxMean]uint32, rows int) (centres [maxClasses]uint64) {
	seen, i := 0, 0
	for m, k := range count {
		seen += int(k)
		for i < maxClasses && (2*i+1)*rows/(2*maxClasses) < seen {
			centres[i] = uint64(m)
			i++
		}
	}
	return centres
}

// nearest sets the class of each mean to the nearest centre, the first on ties. Centres rise.
func nearest(class *[maxMean]uint8, centres *[maxClasses]uint64) {
	best := 0
	for m := range class {
		for next := best + 1; next < maxClasses; next++ {
			if apart(centres[next], m) < apart(centres[best], m) {
				best = next
			}
		}
		class[m] = uint8(best)
	}
}

// apart is the distance of a mean to a centre.
func apart(centre uint64, m int) uint64 { return max(centre, uint64(m)) - min(centre, uint64(m)) }
