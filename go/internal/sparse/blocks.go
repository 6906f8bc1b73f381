package sparse

import "math/bits"

const (
	blockBits = 6
	block     = 1 << blockBits // lane values of a block
)

// blocks counts the lane values of each cluster in blocks of the chunk.
type blocks struct {
	clusters []uint8 // of the lane values
	n        int     // clusters
	count    []uint8 // by block and cluster
	total    [maxClusters]uint32
}

// maxClusters is the largest number of clusters of a tensor (section 14).
const maxClusters = 64

// init counts. Clusters are below n <= 64.
func (b *blocks) init(clusters []uint8, n int) {
	b.clusters, b.n = clusters, n
	size := (len(clusters) + block - 1) >> blockBits * n
	if cap(b.count) < size {
		b.count = make([]uint8, size)
	}
	b.count = b.count[:size]
	countBlocks(b.count, clusters, n)
	clear(b.total[:n])
	for at := 0; at < size; at += n {
		for c, k := range b.count[at : at+n] {
			b.total[c] += uint32(k)
		}
	}
}

// countBlocks sets counts, which has n entries a block, for clusters below n.
func countBlocks(counts, clusters []uint8, n int) {
	clear(counts)
	for ; len(clusters) > 0; counts = counts[n:] {
		end := min(block, len(clusters))
		row := counts[:n]
		for _, c := range clusters[:end] {
			row[c]++
		}
		clusters = clusters[end:]
	}
}

// ranks calls f for each of positions, which increase, with its cluster and its rank in it.
func (b *blocks) ranks(positions []uint32, f func(cluster uint8, rank uint32)) {
	var before [maxClusters]uint32 // lane values of each cluster before the block
	at := uint32(0)                // first of the block
	inside := uint32(0)            // lane values of the block that were counted
	var seen [maxClusters]uint32   // and how many of each cluster they were
	for _, p := range positions {
		for p-at >= block {
			row := b.count[int(at>>blockBits)*b.n:][:b.n]
			for c, k := range row {
				before[c] += uint32(k)
				seen[c] = 0
			}
			at += block
			inside = 0
		}
		for _, c := range b.clusters[at+inside : p] {
			seen[c&(maxClusters-1)]++
		}
		inside = p - at
		c := b.clusters[p]
		f(c, before[c]+seen[c])
	}
}

// places sets positions to the places of the lane values of cluster c that have these ranks, which increase and are below
// the number of its lane values.
func (b *blocks) places(positions, ranks []uint32, c uint8) {
	at, before := 0, uint32(0) // block, and the lane values of c before it
	for i, r := range ranks {
		for r-before >= uint32(b.count[at*b.n+int(c)]) {
			before += uint32(b.count[at*b.n+int(c)])
			at++
		}
		positions[i] = uint32(at<<blockBits + b.inBlock(at, c, int(r-before)))
	}
}

// inBlock finds the lane value of rank r among those of cluster c in a block.
func (b *blocks) inBlock(at int, c uint8, r int) int {
	part := b.clusters[at<<blockBits : min(at<<blockBits+block, len(b.clusters))]
	i := 0
	for ; len(part)-i >= 8; i += 8 {
		same := equalBytes(part[i:], c)
		if n := bits.OnesCount64(same); n <= r {
			r -= n
			continue
		}
		for ; r > 0; r-- {
			same &= same - 1
		}
		return i + bits.TrailingZeros64(same)>>3
	}
	for ; part[i] != c || r > 0; i++ {
		if part[i] == c {
			r--
		}
	}
	return i
}
