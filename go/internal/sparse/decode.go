package sparse

import (
	"errors"
	"slices"

	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

var (
	errState   = errors.New("a state out of range")
	errCount   = errors.New("a number of changes out of range")
	errNone    = errors.New("a sparse chunk without changes")
	errCluster = errors.New("changes in a cluster that cannot have any")
	errWords   = errors.New("the entropy coded part does not end where it should")
	errGap     = errors.New("a gap leads out of the chunk")
	errValue   = errors.New("a change by nothing")
	errTail    = errors.New("the raw bits do not end where they should")
)

// Decode decodes the body of a chunk without its first byte, which told the number of lanes of the coder. ref and clusters
// belong to the lane values; dst may be the memory of ref. An error of the wire package passes through, every other says what
// is wrong with the body.
func (m *Model) Decode(dst, ref []byte, clusters []uint8, spec *transform.Spec, body []byte, lanes int, s *Scratch) error {
	r := wire.NewReader(body)
	nwords := r.Varint()
	states := r.Bytes(uint64(stateBytes * lanes))
	words := r.Bytes(2 * min(nwords, uint64(len(body))))
	tail := r.Bytes(uint64(r.Len()))
	if err := r.Err(); err != nil {
		return err
	}
	var coder rans.Decoder
	if !coder.Init(lanes, states, words) {
		return errState
	}
	s.lanes.init(clusters, len(m.values), nil)
	stream := bitReader{in: tail}
	changed, err := m.readCounts(&stream, s)
	if err != nil {
		return err
	}
	if err := m.readGaps(&stream, &coder, changed, s); err != nil {
		return err
	}
	s.tokens = sized(s.tokens, changed)
	if !m.decoder.Decode(s.tokens, s.symbolRows, &coder) || !coder.Finished() {
		return errWords
	}
	for _, token := range s.tokens {
		if token == 0 {
			return errValue
		}
	}
	values, ok := stream.rest()
	if !ok {
		return errTail
	}

	s.ref = pick(s.ref, ref, s.places, spec.Width)
	plain := *spec
	plain.ContextPart = transform.ContextNone
	var raw transform.RawReader
	raw.Init(nil, values)
	if !plain.Join(s.ref, s.ref, s.tokens, &raw) || !raw.Done() {
		return errTail
	}
	if &dst[0] != &ref[0] {
		copy(dst, ref)
	}
	place(dst, s.ref, s.places, spec.Width)
	return nil
}

// readCounts reads how many lane values of each cluster changed and returns the sum.
func (m *Model) readCounts(stream *bitReader, s *Scratch) (sum int, err error) {
	for k := range m.values {
		s.changed[k] = 0
		total := s.lanes.total[k]
		if total == 0 {
			continue
		}
		n, ok := stream.count(m.expected(k, total), total)
		switch {
		case !ok:
			return 0, errCount
		case n > 0 && m.values[k] == nil:
			return 0, errCluster
		}
		s.changed[k] = n
		sum += int(n)
	}
	if sum == 0 {
		return 0, errNone
	}
	return sum, nil
}

// readGaps decodes the gaps into places, by cluster, and leaves the clusters of the values in symbolRows.
func (m *Model) readGaps(stream *bitReader, coder *rans.Decoder, changed int, s *Scratch) error {
	s.symbolRows, s.tokens = sized(s.symbolRows, changed), sized(s.tokens, changed)
	s.rows = s.rows[:0]
	at := 0
	for k := range m.values {
		n := int(s.changed[k])
		if n > 0 {
			fill(s.symbolRows[at:at+n], s.row(gapRow(s.changed[k], s.lanes.total[k])))
		}
		at += n
	}
	if !slices.EqualFunc(s.rows, s.built, sameRow) {
		s.decoder.Build(s.rows, tableLog)
		s.built = append(s.built[:0], s.rows...)
	}
	if !s.decoder.Decode(s.tokens, s.symbolRows, coder) {
		return errWords
	}
	s.ranks, s.places = sized(s.ranks, changed), sized(s.places, changed)
	at = 0
	for k := range m.values {
		n := int(s.changed[k])
		rank, total := uint32(0), s.lanes.total[k]
		for i, token := range s.tokens[at : at+n] {
			rank += gapValue(token, stream)
			if rank >= total {
				return errGap
			}
			s.ranks[at+i] = rank
			rank++
		}
		s.lanes.places(s.places[at:at+n], s.ranks[at:at+n], uint8(k))
		fill(s.symbolRows[at:at+n], uint8(k))
		at += n
	}
	return nil
}

// gapValue is the inverse of gapToken.
func gapValue(token uint8, stream *bitReader) uint32 {
	n := uint(max(int(token)>>2-1, 0))
	return (uint32(token)-4*uint32(n))<<n + uint32(stream.take(n))
}

// sameRow reports whether two rows are the same memory: those of gaps are never changed.
func sameRow(a, b []uint16) bool { return &a[0] == &b[0] }

func fill(b []uint8, v uint8) {
	for i := range b {
		b[i] = v
	}
}
