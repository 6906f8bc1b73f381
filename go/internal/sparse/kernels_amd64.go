//go:build !purego

package sparse

import "github.com/ulpack/ulpack/go/internal/cpu"

func hasKernels() bool { return cpu.HasAVX2 }

func countKernel(clusters []uint8, c uint8) int {
	if len(clusters) < block {
		return 0
	}
	if cpu.HasAVX512 {
		return countAVX512(&clusters[0], len(clusters)/block, uint64(c))
	}
	return countAVX2(&clusters[0], len(clusters)/block, uint64(c))
}

func placesKernel(places, ranks []uint32, clusters []uint8, c uint8) {
	_ = places[len(ranks)-1]
	if cpu.HasAVX512 {
		placesAVX512(&places[0], &ranks[0], len(ranks), &clusters[0], uint64(c))
		return
	}
	placesAVX2(&places[0], &ranks[0], len(ranks), &clusters[0], uint64(c))
}

func ranksKernel(ranks, places []uint32, clusters []uint8, c uint8) {
	_, _ = ranks[len(places)-1], clusters[places[len(places)-1]]
	if cpu.HasAVX512 {
		ranksAVX512(&ranks[0], &places[0], len(places), &clusters[0], uint64(c))
		return
	}
	ranksAVX2(&ranks[0], &places[0], len(places), &clusters[0], uint64(c))
}

func changedKernel(masks []uint64, a, b []byte, width int) {
	nbytes := len(masks) * block * width / 8
	_, _ = a[nbytes-1], b[nbytes-1]
	switch {
	case width == 16 && cpu.HasAVX512:
		changed16AVX512(&masks[0], &a[0], &b[0], len(masks))
	case width == 16:
		changed16AVX2(&masks[0], &a[0], &b[0], len(masks))
	case cpu.HasAVX512:
		changed32AVX512(&masks[0], &a[0], &b[0], len(masks))
	default:
		changed32AVX2(&masks[0], &a[0], &b[0], len(masks))
	}
}
