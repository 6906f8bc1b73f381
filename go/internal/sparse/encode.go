package sparse

import (
	"encoding/binary"
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Scratch is the memory of coding one chunk; it is reused.
type Scratch struct {
	lanes  lanes
	states [rans.MaxLanes]uint32

	changed     [maxClusters]uint32 // by cluster
	ranks       []uint32            // of changed lane values, by cluster
	places      []uint32            // in the same order
	target, ref []byte              // the same lane values
	rows        [][]uint16          // frequencies, the gaps' first

	values  []uint16 // encoder: tokens of changed values
	raw     transform.RawWriter
	ix      []uint16 // row<<8 | token of all symbols
	words   []byte
	encoder rans.EncTables

	symbolRows, tokens []uint8 // decoder
	decoder            rans.DecTables
	built              [][]uint16 // rows of decoder
}

// Chunk is a chunk to code: lane values and what predicts them, of 16 or 32 bits, and their clusters.
type Chunk struct {
	Spec        *transform.Spec // token map 0, no raw plane
	Target, Ref []byte
	Clusters    []uint8
	Changed     []uint32 // places of the lane values in which Target and Ref differ
	Totals      []uint32 // lane values of each cluster; nil: not known
	Lanes       func(symbols int) (code uint)
}

// Append appends the body of a chunk, but for the kind in its first byte: the lanes are at the place that laneShift says.
func (m *Model) Append(dst []byte, c *Chunk, s *Scratch, laneShift uint) []byte {
	n := len(m.values)
	s.lanes.init(c.Clusters, n, c.Totals)
	s.sortChanges(c, n)

	// The counts and the tails of the gaps make one bit stream, the tails of the values another.
	var stream bitWriter
	for k := range n {
		if total := s.lanes.total[k]; total > 0 {
			stream.count(int64(s.changed[k]), m.expected(k, total))
		}
	}
	symbols := 2 * len(c.Changed)
	s.ix = sized(s.ix, symbols)
	at := 0
	s.rows = s.rows[:0]
	for k := range n {
		changed := int(s.changed[k])
		if changed == 0 {
			continue
		}
		row := uint16(s.row(gapRow(s.changed[k], s.lanes.total[k])))
		next := uint32(0)
		for i, r := range s.ranks[at : at+changed] {
			token, tail, n := gapToken(r - next)
			s.ix[at+i] = row<<8 | token
			stream.put(uint64(tail), n)
			next = r + 1
		}
		at += changed
	}
	s.codeValues(c)
	at = 0
	for k := range n {
		changed := int(s.changed[k])
		if changed == 0 {
			continue
		}
		row := uint16(s.row(m.values[k]))
		for i, token := range s.values[at : at+changed] {
			s.ix[len(c.Changed)+at+i] = row<<8 | token
		}
		at += changed
	}

	code := c.Lanes(symbols)
	coderLanes := 1 << (2 * code)
	s.encoder.Build(s.rows, tableLog)
	s.words = sized(s.words, 2*symbols)
	words := s.encoder.Encode(s.ix, everyRow[:], coderLanes, s.words, s.states[:])
	_, tail := s.raw.Finish()

	dst = append(dst, uint8(code)<<laneShift)
	dst = wire.AppendVarint(dst, uint64(len(words)/2))
	for _, x := range s.states[:coderLanes] {
		dst = binary.LittleEndian.AppendUint32(dst, x)
	}
	dst = append(dst, words...)
	dst = append(dst, stream.finish()...)
	return append(dst, tail...)
}

// Count counts clusters, which are below n <= 64. The result holds until the next use of s.
func (s *Scratch) Count(clusters []uint8, n int) []uint32 {
	s.lanes.init(clusters, n, nil)
	return s.lanes.total[:n]
}

// Pick returns the lane values of width 16 or 32 bits of two rows at places. The result holds until the next use of s.
func (s *Scratch) Pick(a, b []byte, places []uint32, width int) (atA, atB []byte) {
	s.target, s.ref = pick(s.target, a, places, width), pick(s.ref, b, places, width)
	return s.target, s.ref
}

// sortChanges sorts the places of changed lane values by cluster and finds their ranks.
func (s *Scratch) sortChanges(c *Chunk, n int) {
	clear(s.changed[:n])
	for _, p := range c.Changed {
		s.changed[c.Clusters[p]]++
	}
	var next [maxClusters]uint32
	sum := uint32(0)
	for k := range n {
		next[k] = sum
		sum += s.changed[k]
	}
	s.ranks, s.places = sized(s.ranks, len(c.Changed)), sized(s.places, len(c.Changed))
	for _, p := range c.Changed {
		k := c.Clusters[p]
		s.places[next[k]] = p
		next[k]++
	}
	for k := range n {
		end := next[k]
		start := end - s.changed[k]
		s.lanes.ranks(s.ranks[start:end], s.places[start:end], uint8(k))
	}
}

// codeValues splits the changed lane values, in the order of places.
func (s *Scratch) codeValues(c *Chunk) {
	s.Pick(c.Target, c.Ref, s.places, c.Spec.Width)
	spec := *c.Spec
	spec.ContextPart = transform.ContextNone
	s.values = sized(s.values, len(s.places))
	s.raw.Clear()
	spec.Split(s.values, s.target, s.ref, &s.raw)
}

// row returns the number of a row of frequencies in rows, where it is added unless it is there.
func (s *Scratch) row(freq []uint16) uint8 {
	for i, r := range s.rows {
		if &r[0] == &freq[0] {
			return uint8(i)
		}
	}
	s.rows = append(s.rows, freq)
	return uint8(len(s.rows) - 1)
}

// gapToken is the hybrid unsigned integer of section 8.
func gapToken(v uint32) (token uint16, tail uint32, n uint) {
	n = uint(bits.Len32(v|4)) - 3
	return uint16(4*n) + uint16(v>>n), v & (1<<n - 1), n
}

var everyRow = func() (m [256]uint8) {
	for i := range m {
		m[i] = uint8(i)
	}
	return m
}()

// sized returns a slice of n elements with unspecified content, b if it is large enough.
func sized[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}
