package model

import "math/bits"

const (
	logFracBits  = 16 // logarithms are in units of 2^-16 bit
	oneBit       = 1 << logFracBits
	logIndexBits = 12
)

// logFrac[i] is T[i] of section 20: log2(1 + i/4096), by repeated squaring.
var logFrac = func() (t [1 << logIndexBits]uint16) {
	for i := range t {
		x := uint64(1<<logIndexBits+i) << (31 - logIndexBits)
		var frac uint16
		for range logFracBits {
			x = x * x >> 31
			frac <<= 1
			if x >= 1<<32 {
				frac++
				x >>= 1
			}
		}
		t[i] = frac
	}
	return t
}()

// Log2 returns the fixed-point binary logarithm of v >= 1 in units of 2^-16 bit (FORMAT.md section 20).
func Log2(v uint64) uint64 {
	lead := uint(bits.LeadingZeros64(v)) & 63 // the mask says that the shifts below are short
	// The 12 bits under the leading one, cut off or filled with zeros.
	i := v << lead << 1 >> (64 - logIndexBits)
	return uint64(63-lead)<<logFracBits + uint64(logFrac[i])
}

// smallXLog is XLog below 2^12, where most counts are; 4095 * log2(4095) fits in 32 bits.
var smallXLog = func() (t [1 << logIndexBits]uint32) {
	for v := 1; v < len(t); v++ {
		t[v] = uint32(uint64(v) * Log2(uint64(v)))
	}
	return t
}()

// XLog returns v * log2(v) in units of 2^-16 bit, and 0 for v = 0 (FORMAT.md section 20). v must be below 2^42.
func XLog(v uint64) uint64 {
	if v < uint64(len(smallXLog)) {
		return uint64(smallXLog[v])
	}
	return v * Log2(v)
}
