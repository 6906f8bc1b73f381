package rans

import "math/bits"

// DecTables holds the decoding tables of all clusters. The zero value is ready for Build.
//
// The entry of a slot is frequency<<20 | (slot - cum)<<8 | token, and entries of cluster k start at k << tableLog. A frequency below M
// fits 12 bits, because every table has at least two tokens (FORMAT.md section 10).
type DecTables struct {
	entries  []uint32
	tableLog uint
	clusters int
	mask     uint8 // clusters rounded up to a power of two, minus one: no cluster number leads out of entries
}

// Build fills the tables from one row of frequencies a cluster; each row has at least two frequencies that are not 0, at most 256
// tokens, and sums to 1<<tableLog. There are 1 to 64 clusters. Memory is reused.
func (d *DecTables) Build(freq [][]uint16, tableLog int) {
	d.tableLog, d.clusters = uint(tableLog), len(freq)
	d.mask = uint8(1)<<bits.Len(uint(len(freq)-1)) - 1
	need := (int(d.mask) + 1) << tableLog
	if cap(d.entries) < need {
		d.entries = make([]uint32, need)
	}
	d.entries = d.entries[:need]
	at := 0
	for _, row := range freq {
		for token, f := range row {
			e := uint32(f)<<20 | uint32(token)
			run := d.entries[at:][:f]
			for i := range run {
				run[i] = e
				e += 1 << 8
			}
			at += int(f)
		}
	}
	clear(d.entries[at:])
}

// An entry of the encoder codes one token of one cluster. After renormalisation a state x becomes
//
//	(x / f) << tableLog + x mod f + cum  =  x + bias + (x / f) * (M - f),   bias = cum,
//
// and the division is exact as a multiplication: with k = bitlen(f - 1), rcp = ceil(2^(31+k) / f) and x < 2^31,
// x / f = (x * rcp) >> 32 >> (k - 1). The error of rcp*f is below f <= 2^k, that of the product below x < 2^31, so the quotient
// cannot change. For f = 1 there is no such k - 1; instead rcp = 2^32 - 1 gives (x * rcp) >> 32 = x - 1, and the bias takes
// the missing M - 1: x + cum + M - 1 + (x - 1) * (M - 1) = x * M + cum.
//
// Layout: rcp | f << 32 | bias << 44 | (k - 1) << 57, where the bias is below 2^13.
func encEntry(rcp, f, bias uint32, shift uint) uint64 {
	return uint64(rcp) | uint64(f|bias<<12|uint32(shift)<<25)<<32
}

// EncTables holds the encoding tables of all clusters. The zero value is ready for Build.
type EncTables struct {
	entries  []uint64 // cluster << stride | token, and 256 more, so that no token leads out
	tableLog uint
	stride   uint // log2 of the entries of a cluster
	clusters int
}

// Build fills the tables; the rules of DecTables.Build hold. Tokens with frequency 0 must not be encoded.
func (e *EncTables) Build(freq [][]uint16, tableLog int) {
	e.tableLog, e.clusters = uint(tableLog), len(freq)
	e.stride = uint(bits.Len(uint(len(freq[0]) - 1)))
	need := len(freq)<<e.stride + MaxTokens
	if cap(e.entries) < need {
		e.entries = make([]uint64, need)
	}
	e.entries = e.entries[:need]
	for k, row := range freq {
		out := e.entries[k<<e.stride:][:1<<e.stride]
		clear(out[len(row):])
		cum := uint32(0)
		for token, f16 := range row {
			f := uint32(f16)
			if f < 2 {
				out[token] = encEntry(1<<32-1, f, cum+1<<tableLog-1, 0)
			} else {
				shift := uint(bits.Len32(f - 1))
				rcp := (1<<(31+shift) + uint64(f) - 1) / uint64(f)
				out[token] = encEntry(uint32(rcp), f, cum, shift-1)
			}
			cum += f
		}
	}
}
