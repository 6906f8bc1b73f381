//go:build !purego

package rans

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/cpu"
)

// kernelLanes is the smallest number of lanes that kernels handle.
const kernelLanes = 16

func hasKernel() bool { return cpu.HasAVX2 }

// decodeKernel decodes whole rounds and returns the number of bytes read. words holds two bytes for each symbol.
func (d *DecTables) decodeKernel(tokens, clusters []uint8, words []byte, dec *Decoder) int {
	_, _, _ = tokens[0], clusters[len(tokens)-1], words[2*len(tokens)-1]
	rounds, tableLog, mask := len(tokens)/dec.Lanes, uint64(d.tableLog), uint64(d.mask)
	switch {
	case dec.Lanes == 64 && cpu.HasAVX512:
		return decode64AVX512(&d.entries[0], &tokens[0], &clusters[0], &words[0], &dec.States[0], rounds, tableLog, mask)
	case dec.Lanes == 64:
		return decode64AVX2(&d.entries[0], &tokens[0], &clusters[0], &words[0], &dec.States[0], rounds, tableLog, mask, &expandShuffles)
	case cpu.HasAVX512:
		return decode16AVX512(&d.entries[0], &tokens[0], &clusters[0], &words[0], &dec.States[0], rounds, tableLog, mask)
	default:
		return decode16AVX2(&d.entries[0], &tokens[0], &clusters[0], &words[0], &dec.States[0], rounds, tableLog, mask, &expandShuffles)
	}
}

// encodeKernel encodes whole rounds into the end of words, which has two bytes for each symbol, and returns the number of bytes
// written. Without offsets the symbols are numbers of entries.
func (e *EncTables) encodeKernel(ix []uint16, offsets *[32]uint32, states []uint32, words []byte) int {
	_ = words[2*len(ix)-1]
	rounds, tableLog := len(ix)/len(states), uint64(e.tableLog)
	switch wide := len(states) == 64; {
	case wide && offsets != nil && cpu.HasAVX512:
		return encode64AVX512(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog)
	case wide && offsets != nil:
		return encode64AVX2(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog, &compressShuffles)
	case wide && cpu.HasAVX512:
		return encodeMapped64AVX512(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog)
	case wide:
		return encodeMapped64AVX2(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog, &compressShuffles)
	case offsets != nil && cpu.HasAVX512:
		return encode16AVX512(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog)
	case offsets != nil:
		return encode16AVX2(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog, &compressShuffles)
	case cpu.HasAVX512:
		return encodeMapped16AVX512(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog)
	default:
		return encodeMapped16AVX2(&e.entries[0], &ix[0], offsets, &words[0], len(words), &states[0], rounds, tableLog, &compressShuffles)
	}
}

// expandShuffles has, for each set of 8 lanes, the byte shuffle that brings 8 words in order to the low halves of these lanes and zero
// to everything else. compressShuffles is the way back, from 8 words to the last of 8 places.
var expandShuffles, compressShuffles = shuffles()

func shuffles() (expand [256][32]byte, compress [256][16]byte) {
	for set := range expand {
		for i := range expand[set] {
			expand[set][i] = 0x80
		}
		for i := range compress[set] {
			compress[set][i] = 0x80
		}
		rank, first := 0, 8-bits.OnesCount(uint(set))
		for lane := range 8 {
			if set>>lane&1 == 0 {
				continue
			}
			expand[set][4*lane], expand[set][4*lane+1] = byte(2*rank), byte(2*rank+1)
			to := 2 * (first + rank)
			compress[set][to], compress[set][to+1] = byte(2*lane), byte(2*lane+1)
			rank++
		}
	}
	return expand, compress
}
