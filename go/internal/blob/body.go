package blob

import (
	"encoding/binary"
	"slices"

	"github.com/ulpack/ulpack/go/internal/wire"
)

// Bits of the first byte of a chunk body (FORMAT.md section 11): on the wire.
const (
	bodyKindBits = 2
	bodyLaneBits = 2
	stateBytes   = 4
)

// laneCode is the lane count of section 23 for m lane values, as 0, 1, 2, 3 for 1, 4, 16, 64.
func laneCode(m int) uint {
	switch {
	case m < 1024:
		return 0
	case m < 16384:
		return 1
	case m < 131072:
		return 2
	}
	return 3
}

// AppendBody appends the body of chunk j of a coded tensor (sections 11 and 23).
func (e *Encoder) AppendBody(dst []byte, j int, s *Scratch) []byte {
	if e.unchanged[j] && e.head.spec.Predictor == predictReference {
		return append(dst, bodyUnchanged)
	}
	k := e.splitChunk(j, s)
	code := laneCode(len(k.ix))
	lanes := 1 << (2 * code)
	s.words = sized(s.words, 2*len(k.ix))
	words := e.coder.Encode(k.ix, e.contextMap[:], lanes, s.words, s.states[:])
	plane, tail := k.raw.Finish()

	raw := e.Raw(j)
	nwords := uint64(len(words) / 2)
	size := 1 + wire.VarintLen(nwords) + stateBytes*lanes + len(words) + len(plane) + len(tail)
	if size >= 1+len(raw) {
		return append(append(dst, bodyStored), raw...)
	}
	dst = slices.Grow(dst, size)
	dst = append(dst, bodyCoded|uint8(code)<<bodyKindBits)
	dst = wire.AppendVarint(dst, nwords)
	for _, x := range s.states[:lanes] {
		dst = binary.LittleEndian.AppendUint32(dst, x)
	}
	dst = append(dst, words...)
	dst = append(dst, plane...)
	return append(dst, tail...)
}
