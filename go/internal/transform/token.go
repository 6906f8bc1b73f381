package transform

import "math/bits"

// hybridToken splits y into the token and the number of tail bits of the hybrid-uint map: the bits below the leading one and the two
// after it are the tail (FORMAT.md section 8).
func hybridToken(y uint64) (token, n uint) {
	n = uint(bits.Len64(y|4)) - 3
	return 4*n + uint(y>>(n&63)), n
}

// hybrid is the way back for one width of y: y = base[s] + tail of n[s] bits. Tokens beyond the alphabet have n = 0, so that nothing
// is read for them.
type hybrid struct {
	base [256]uint64
	n    [256]uint8
}

// hybridTables is indexed by the width of y in bytes.
var hybridTables = func() (t [9]hybrid) {
	for nbytes := 1; nbytes <= 8; nbytes++ {
		alphabet := 4*(8*nbytes-3) + 8
		for s := 0; s < alphabet; s++ {
			n := max(s>>2-1, 0)
			t[nbytes].base[s] = uint64(s-4*n) << n
			t[nbytes].n[s] = uint8(n)
		}
	}
	return t
}()
