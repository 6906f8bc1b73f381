package sparse

// maxClusters is the largest number of clusters of a tensor (section 14).
const maxClusters = 64

const (
	block = 64  // lane values that kernels look at together
	ahead = 192 // lane values that they may look at beyond the last block
	none  = 255 // the cluster of no lane value
)

// Slack is the capacity beyond their length that makes clusters fit for kernels without a copy.
const Slack = block + ahead

// lanes are the clusters of the lane values of a chunk, padded to whole blocks, and more beyond the length.
type lanes struct {
	clusters []uint8
	total    [maxClusters]uint32 // lane values of each cluster
	memory   []uint8
}

// init takes over clusters, which are below n <= 64, and counts them, unless their totals are known.
func (l *lanes) init(clusters []uint8, n int, totals []uint32) {
	m := len(clusters)
	padded := (m+block-1)&^(block-1) + ahead
	if cap(clusters) < padded {
		l.memory = sized(l.memory, padded)
		copy(l.memory, clusters)
		clusters = l.memory
	}
	l.clusters = clusters[:padded]
	for i := m; i < padded; i++ {
		l.clusters[i] = none
	}
	l.clusters = l.clusters[:padded-ahead]
	if totals != nil {
		copy(l.total[:n], totals)
		return
	}
	l.count(m, n)
}

// count sets the totals of n clusters, of m lane values.
func (l *lanes) count(m, n int) {
	clear(l.total[:n])
	if hasKernels() {
		for c := n - 1; c >= 0 && m > 0; c-- { // exponents are often near the largest
			k := countKernel(l.clusters, uint8(c))
			l.total[c] = uint32(k)
			m -= k
		}
		return
	}
	var count [2][256]uint32 // two, so that equal neighbours do not wait for each other
	for i := 0; i < len(l.clusters); i += 2 {
		count[0][l.clusters[i]]++
		count[1][l.clusters[i+1]]++
	}
	for c := range n {
		l.total[c] = count[0][c] + count[1][c]
	}
}

// places sets places to where the lane values of cluster c are that have these ranks, which increase and are below the total.
func (l *lanes) places(places, ranks []uint32, c uint8) {
	switch {
	case len(ranks) == 0:
	case hasKernels():
		placesKernel(places, ranks, l.clusters, c)
	default:
		placesGeneric(places, ranks, l.clusters, c)
	}
}

// ranks sets ranks to the ranks of the lane values of cluster c at places, which increase.
func (l *lanes) ranks(ranks, places []uint32, c uint8) {
	switch {
	case len(places) == 0:
	case hasKernels():
		ranksKernel(ranks, places, l.clusters, c)
	default:
		ranksGeneric(ranks, places, l.clusters, c)
	}
}
