package rans

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/le"
)

// encodeGeneric codes the symbols of ix, which begins at lane 0, from the last to the first, and writes words into buf down from pos. It
// returns the position of the last word.
func (e *EncTables) encodeGeneric(ix []uint16, contextMap []uint8, states []uint32, buf []byte, pos int) int {
	limit := 31 - e.tableLog
	m := uint32(1) << (e.tableLog & 31)
	mask := len(states) - 1
	for i := len(ix) - 1; i >= 0; i-- {
		v := ix[i]
		entry := e.entries[int(contextMap[v>>8])<<(e.stride&63)|int(v&255)]
		rcp, packed := uint32(entry), uint32(entry>>32)
		f := packed & 4095
		x := states[i&mask]
		// A word is emitted where x is at or above f << limit. It is always written, and kept or not, to go without a branch.
		le.Store16(buf, pos-2, uint16(x))
		need := 1 - (x-f<<(limit&31))>>31
		pos -= int(2 * need)
		x >>= need << 4 & 31
		hi, _ := bits.Mul32(x, rcp)
		q := hi >> (packed >> 25)
		states[i&mask] = x + packed>>12&8191 + q*(m-f)
	}
	return pos
}
