package transform

import (
	"encoding/binary"

	"github.com/ulpack/ulpack/go/internal/le"
)

// rawSlack is how far beyond their last byte kernels may read or write a raw buffer that was prepared for it.
const rawSlack = 64

// RawWriter collects the raw plane and the tail of a chunk (FORMAT.md section 11). Its buffers grow in Reserve only.
type RawWriter struct {
	plane, tail       []byte // whole buffers, slack included
	planeLen, tailLen int    // bytes written; those of the tail are complete
	acc               uint64 // tail bits not yet in a complete byte
	nbits             uint   // their number, 0..7
}

// Reset empties the writer. The buffers, which may be nil, become its memory, up to their capacity.
func (w *RawWriter) Reset(planeBuf, tailBuf []byte) {
	*w = RawWriter{plane: planeBuf[:cap(planeBuf)], tail: tailBuf[:cap(tailBuf)]}
}

// Clear empties the writer and keeps its memory.
func (w *RawWriter) Clear() {
	w.planeLen, w.tailLen, w.acc, w.nbits = 0, 0, 0, 0
}

// Reserve makes room for m more lane values coded by s.
func (w *RawWriter) Reserve(s *Spec, m int) {
	w.plane = grow(w.plane, w.planeLen, w.planeLen+m*(s.K/8)+rawSlack)
	w.tail = grow(w.tail, w.tailLen, w.tailLen+(m*s.MaxTailBits()+7)/8+rawSlack)
}

func grow(b []byte, used, need int) []byte {
	if len(b) >= need {
		return b
	}
	next := make([]byte, need)
	copy(next, b[:used])
	return next
}

// Len returns the number of plane bytes and of tail bits so far.
func (w *RawWriter) Len() (planeBytes, tailBits int) {
	return w.planeLen, 8*w.tailLen + int(w.nbits)
}

// Finish returns the plane and the tail, padded with zero bits to a byte. They stay valid until the writer is used again.
func (w *RawWriter) Finish() (plane, tail []byte) {
	n := w.tailLen
	if w.nbits > 0 {
		w.tail[n] = byte(w.acc)
		n++
	}
	return w.plane[:w.planeLen], w.tail[:n]
}

// RawReader reads a raw plane and a tail.
type RawReader struct {
	plane, tail []byte
	planePos    int // bytes
	tailPos     int // bits
	bad         bool
	pad         pads
	params      params // of the kernels
}

// Init starts reading. The buffers are not changed and may end anywhere.
func (r *RawReader) Init(plane, tail []byte) {
	r.plane, r.tail, r.planePos, r.tailPos, r.bad = plane, tail, 0, 0, false
}

// Done reports whether everything was read, no more than there is, and the unused bits of the last byte are 0.
func (r *RawReader) Done() bool {
	if r.bad || r.planePos != len(r.plane) || (r.tailPos+7)/8 != len(r.tail) {
		return false
	}
	used := uint(r.tailPos & 7)
	return used == 0 || r.tail[len(r.tail)-1]>>used == 0
}

// Near the end of the raw bits, blocks of padBlock lane values are read from copies. padSize bounds what they read: a tail of at most 63 bits
// each, and tailWindow bytes from the position of the last one; the plane is shorter, with planeWindow bytes.
const (
	padBlock    = 128
	padSize     = padBlock*8 + tailWindow
	tailWindow  = 64
	planeWindow = 32
)

// pads are copies of the ends of plane and tail followed by zeros, so that the last values of a chunk are read with whole windows.
type pads struct {
	plane, tail [padSize]byte
}

// window returns how many of m lane values can be read at once (if not all, at least padBlock), the bytes from which their plane starts,
// and those from which their tail starts at bit tailPos (0..7). There are planeWindow bytes of plane and tailWindow bytes of tail at the position of
// every one of these values, whatever they are. Near the end they are zero-padded copies, and what was read is checked by advance.
func (r *RawReader) window(s *Spec, m int) (count int, plane, tail []byte, tailPos int) {
	maxTail, planeBytes := s.MaxTailBits(), s.K/8
	plane, tail = r.plane[min(r.planePos, len(r.plane)):], r.tail[min(r.tailPos>>3, len(r.tail)):]
	tailPos = r.tailPos & 7
	count = m
	if maxTail > 0 {
		count = min(count, (8*(len(tail)-tailWindow)-7)/maxTail)
	}
	if planeBytes > 0 {
		count = min(count, (len(plane)-planeWindow)/planeBytes)
	}
	if count >= min(m, padBlock) && len(tail) >= tailWindow {
		return count, plane, tail, tailPos
	}
	pad := &r.pad
	n := copy(pad.tail[:], tail)
	clear(pad.tail[n:])
	n = copy(pad.plane[:], plane)
	clear(pad.plane[n:])
	return min(m, padBlock), pad.plane[:], pad.tail[:], tailPos
}

// advance moves by what was read of a window; false if that is more than there is.
func (r *RawReader) advance(planeBytes, tailBits int) bool {
	r.planePos += planeBytes
	r.tailPos += tailBits
	if r.planePos > len(r.plane) || r.tailPos > 8*len(r.tail) {
		r.bad = true
	}
	return !r.bad
}

// peek returns at least 57 bits of the bit stream b from bit pos on.
func peek(b []byte, pos int) uint64 { return le.Load64(b, pos>>3) >> (pos & 7) }

// peekLong returns 64 bits of the bit stream b from bit pos on; nine bytes must be readable.
func peekLong(b []byte, pos int) uint64 {
	shift := uint(pos & 7)
	return binary.LittleEndian.Uint64(b[pos>>3:])>>shift | uint64(b[pos>>3+8])<<(64-shift)
}
