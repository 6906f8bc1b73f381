package blob

import (
	"errors"

	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/sparse"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// decodeBody decodes a chunk body (section 11) to the lane values of a view.
func (d *Decoder) decodeBody(dst []byte, v *view, body []byte, s *Scratch) error {
	kind, code := body[0]&(1<<bodyKindBits-1), body[0]>>bodyKindBits
	rest := body[1:]
	if kind == bodySparse && d.record.Minor < 1 {
		return fault.Unsupported("chunk kind %d", kind)
	}
	if code>>bodyLaneBits != 0 || (kind == bodyStored || kind == bodyUnchanged) && code != 0 {
		return fault.Corrupt("a chunk body that starts with %#x", body[0])
	}
	switch kind {
	case bodyStored:
		if len(rest) != len(dst) {
			return fault.Corrupt("%d stored bytes of a chunk of %d", len(rest), len(dst))
		}
		copy(dst, rest)
		return nil
	case bodyUnchanged:
		if len(rest) != 0 {
			return fault.Corrupt("%d bytes in an unchanged chunk", len(rest))
		}
		if v.ref != nil {
			copy(dst, v.ref)
		} else {
			clear(dst)
		}
		return nil
	case bodySparse:
		return d.decodeSparse(dst, v, rest, 1<<(2*code), s)
	}
	return d.decodeCoded(dst, v, rest, 1<<(2*code), s)
}

// decodeSparse decodes a sparse chunk (section 18).
func (d *Decoder) decodeSparse(dst []byte, v *view, rest []byte, lanes int, s *Scratch) error {
	if !d.mayOmit {
		return fault.Corrupt("a sparse chunk under a header that does not allow it")
	}
	d.omitted.Do(func() { d.sparse.InitDecoder(d.model) })
	s.clusters = sized(s.clusters, v.lanes+sparse.Slack)[:v.lanes]
	d.head.clusters(s.clusters, v, d.model.ContextMap)
	err := d.sparse.Decode(dst, v.ref, s.clusters, &d.head.spec, rest, lanes, &s.sparse)
	var own *fault.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return fault.Corrupt("a sparse chunk: %v", err)
}

// decodeCoded decodes words, raw plane and tail: clusters from the contexts, tokens from the words, values from both and
// the raw bits.
func (d *Decoder) decodeCoded(dst []byte, v *view, rest []byte, lanes int, s *Scratch) error {
	spec := &d.head.spec
	m := v.lanes
	r := wire.NewReader(rest)
	nwords := r.Varint()
	states := r.Bytes(uint64(stateBytes * lanes))
	if nwords > uint64(m) {
		return fault.Corrupt("%d words for %d lane values", nwords, m)
	}
	words := r.Bytes(2 * nwords)
	if err := r.Err(); err != nil {
		return err
	}

	s.clusters = sized(s.clusters, m)
	d.head.clusters(s.clusters, v, d.model.ContextMap)
	coder := d.tables(s)

	if !s.lanes.Init(lanes, states, words) {
		return fault.Corrupt("a state out of range")
	}
	s.tokens = sized(s.tokens, m)
	if !coder.Decode(s.tokens, s.clusters, &s.lanes) || !s.lanes.Finished() {
		return fault.Corrupt("the entropy coded part does not end where it should")
	}

	planeBytes := uint64(spec.K/8) * uint64(transform.PlaneValues(spec.Map, s.tokens))
	plane := r.Bytes(planeBytes)
	tail := r.Bytes(uint64(r.Len()))
	if err := r.Err(); err != nil {
		return err
	}
	var raw transform.RawReader
	raw.Init(plane, tail)
	if !spec.Join(dst, v.ref, s.tokens, &raw) || !raw.Done() {
		return fault.Corrupt("the raw bits do not end where they should, or a value is out of range")
	}
	return nil
}

// tables returns the decoding tables for the clusters in s. Reduced tables hold only the rows that occur.
func (d *Decoder) tables(s *Scratch) *rans.DecTables {
	if !d.reduced {
		return &d.coder
	}
	var place [256]uint8 // row of each cluster, plus 1
	s.rows = s.rows[:0]
	for i, c := range s.clusters {
		if place[c] == 0 {
			s.rows = append(s.rows, d.model.Freq[c])
			place[c] = uint8(len(s.rows))
		}
		s.clusters[i] = place[c] - 1
	}
	s.coder.Build(s.rows, d.model.TableLog)
	return &s.coder
}
