package sparse

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
)

// The body of a sparse chunk after its first byte (FORMAT.md section 18): on the wire.
const (
	tableLog   = 12
	gapTokens  = 68 // of hybrid unsigned integers below 2^18
	stateBytes = 4
)

// gapSpec is the family of distributions of the gaps (section 10).
var gapSpec = model.ParamSpec{A: gapTokens}

// gapShape is the geometric distribution.
const gapShape = 0

// gapRows are the frequencies of gaps by scale, computed when first asked for.
var gapRows [maxScale - minScale + 1]atomic.Pointer[[]uint16]

// Scales of the family (section 10).
const minScale, maxScale = -32, 160

// gapRow returns the frequencies for the gaps of a cluster of total lane values, of which some changed. It is always the
// same memory for the same frequencies.
func gapRow(changed, total uint32) []uint16 {
	sc := model.GapScale(uint64(changed), uint64(total-changed))
	slot := &gapRows[sc-minScale]
	for {
		if row := slot.Load(); row != nil {
			return *row
		}
		row := model.ParametricRow(gapShape, sc, gapSpec)
		slot.CompareAndSwap(nil, &row)
	}
}

// Model is what a tensor's tables say about its sparse chunks.
type Model struct {
	values  [][]uint16 // by cluster: frequencies of the tokens of changed values; nil: none changes
	changes []uint64   // by cluster: frequency of a change in 1 << log
	log     int
	decoder rans.DecTables // of values
}

// Init prepares the coding of chunks with own tables t.
func (m *Model) Init(t *model.Tables) {
	m.values = t.ChangedRows(tableLog)
	m.log = t.TableLog
	m.changes = m.changes[:0]
	for _, row := range t.Freq {
		m.changes = append(m.changes, 1<<t.TableLog-uint64(row[0]))
	}
}

// InitDecoder prepares the decoding of chunks with own tables t.
func (m *Model) InitDecoder(t *model.Tables) {
	m.Init(t)
	rows := make([][]uint16, 0, len(m.values))
	for _, row := range m.values {
		if row == nil { // never used
			row = gapRow(1, 2)
		}
		rows = append(rows, row)
	}
	m.decoder.Build(rows, tableLog)
}

// expected is how many of n lane values of a cluster the tables let expect to change.
func (m *Model) expected(cluster int, n uint32) int64 {
	return int64(uint64(n) * m.changes[cluster] >> m.log)
}

// bitWriter appends a bit stream, least significant bit first.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint
}

// put appends n <= 32 bits.
func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << w.n
	w.n += n
	for w.n >= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// finish pads with zeros to a byte.
func (w *bitWriter) finish() []byte {
	if w.n > 0 {
		w.out = append(w.out, byte(w.acc))
		w.acc, w.n = 0, 0
	}
	return w.out
}

// count appends a number of changes as its difference to what was expected: Elias gamma of the zigzag plus one, the zeros
// first.
func (w *bitWriter) count(changed, expected int64) {
	d := changed - expected
	v := uint64(d<<1^d>>63) + 1
	n := uint(bits.Len64(v) - 1)
	w.put(0, n)
	w.put(1, 1)
	w.put(v&(1<<n-1), n)
}

// bitReader reads what bitWriter wrote; beyond the end there are zeros, and short tells.
type bitReader struct {
	in  []byte
	pos int // bits
}

// peek returns at least 32 bits.
func (r *bitReader) peek() uint64 {
	at := r.pos >> 3
	var b [8]byte
	if at+8 <= len(r.in) {
		return binary.LittleEndian.Uint64(r.in[at:]) >> (r.pos & 7)
	}
	if at < len(r.in) {
		copy(b[:], r.in[at:])
	}
	return binary.LittleEndian.Uint64(b[:]) >> (r.pos & 7)
}

func (r *bitReader) take(n uint) uint64 {
	v := r.peek() & (1<<n - 1)
	r.pos += int(n)
	return v
}

func (r *bitReader) short() bool { return r.pos > 8*len(r.in) }

// count reads what bitWriter.count wrote; ok is false unless the number of changes lies in 0 .. n.
func (r *bitReader) count(expected int64, n uint32) (changed uint32, ok bool) {
	zeros := uint(bits.TrailingZeros64(r.peek() | 1<<maxCountBits))
	if zeros >= maxCountBits {
		return 0, false
	}
	r.pos += int(zeros) + 1
	v := (1<<zeros | r.take(zeros)) - 1
	c := expected + int64(v>>1^-(v&1))
	return uint32(c), 0 <= c && c <= int64(n) && !r.short()
}

// maxCountBits is more than the zeros of any count: chunks have at most 2^18 lane values.
const maxCountBits = 24

// rest returns the bytes after those that were begun, or ok false if the last one has bits that are not 0.
func (r *bitReader) rest() (b []byte, ok bool) {
	if r.short() {
		return nil, false
	}
	used := r.pos & 7
	if used != 0 && r.in[r.pos>>3]>>used != 0 {
		return nil, false
	}
	return r.in[(r.pos+7)/8:], true
}
