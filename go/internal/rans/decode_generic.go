package rans

import (
	"github.com/ulpack/ulpack/go/internal/le"
)

// decodeGeneric decodes len(tokens) symbols; there must be as many words. It returns the number of bytes read.
func (d *DecTables) decodeGeneric(tokens, clusters []uint8, dec *Decoder) int {
	tableLog := d.tableLog & 31
	m := uint32(1)<<tableLog - 1
	entries, words := d.entries, dec.Words
	clusterMask := d.mask
	lane, mask := dec.Lane, dec.Lanes-1
	pos := 0
	clusters = clusters[:len(tokens)]
	for i := range tokens {
		x := dec.States[lane&(MaxLanes-1)]
		entry := le.At(entries, int(clusters[i]&clusterMask)<<tableLog|int(x&m))
		tokens[i] = uint8(entry)
		x = (entry>>20)*(x>>tableLog) + entry>>8&4095
		// Take a word where x is below L, without a branch.
		need := (x - L) >> 31
		x = x<<(need<<4&31) | uint32(le.Load16(words, pos))&-need
		pos += int(2 * need)
		dec.States[lane&(MaxLanes-1)] = x
		lane = (lane + 1) & mask
	}
	dec.Lane = lane
	return pos
}

// decodeLast decodes with a check for every word: the last symbols of a chunk, which may need fewer words than there are symbols.
func (d *DecTables) decodeLast(tokens, clusters []uint8, dec *Decoder) bool {
	m := uint32(1)<<d.tableLog - 1
	for i := range tokens {
		x := dec.States[dec.Lane]
		entry := d.entries[int(clusters[i]&d.mask)<<d.tableLog|int(x&m)]
		tokens[i] = uint8(entry)
		x = (entry>>20)*(x>>d.tableLog) + entry>>8&4095
		if x < L {
			if len(dec.Words) < 2 {
				return false
			}
			x = x<<16 | uint32(dec.Words[0]) | uint32(dec.Words[1])<<8
			dec.Words = dec.Words[2:]
		}
		dec.States[dec.Lane] = x
		dec.Lane = (dec.Lane + 1) & (dec.Lanes - 1)
	}
	return true
}
