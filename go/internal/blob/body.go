package blob

import (
	"encoding/binary"
	"slices"

	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/sparse"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Bits of the first byte of a chunk body (FORMAT.md section 11): on the wire.
const (
	bodyKindBits = 2
	bodyLaneBits = 2
	stateBytes   = 4
)

// laneCode is the lane count for n symbols (section 23), as 0, 1, 2, 3 for 1, 4, 16, 64.
func laneCode(n int) uint {
	switch {
	case n < 1024:
		return 0
	case n < 16384:
		return 1
	case n < 131072:
		return 2
	}
	return 3
}

// laneCodeFor is the lane count for words of nbytes (section 36): more lanes would cost too much beside them.
func laneCodeFor(nbytes uint64) uint {
	switch {
	case nbytes < 64:
		return 0
	case nbytes < 1024:
		return 1
	case nbytes < 16384:
		return 2
	}
	return 3
}

// AppendBody appends the body of chunk j of a coded tensor (sections 11, 23 and 36).
func (e *Encoder) AppendBody(dst []byte, j int, s *Scratch) []byte {
	if e.unchanged[j] {
		if e.rows != nil && e.rows.before[j] == e.rows.before[j+1] {
			return dst // all of its rows are exact
		}
		return append(dst, bodyUnchanged)
	}
	v := e.view(j, s)
	start := len(dst)
	if e.mayOmit {
		s.changed = sized(s.changed, v.lanes/sparseShare+8)
		var ok bool
		s.changed, ok = sparse.Changed(s.changed, v.target, v.ref, e.head.spec.Width, v.lanes/sparseShare)
		if ok {
			dst = e.appendSparse(dst, j, &v, s)
			return e.orStored(dst, start, &v)
		}
	}
	k := e.splitChunk(j, &v, s)
	code := min(laneCode(len(k.ix)), laneCodeFor(e.expectedBits(uint64(len(k.ix)))/8))
	lanes := 1 << (2 * code)
	s.words = sized(s.words, 2*len(k.ix))
	words := e.coder.Encode(k.ix, e.contextMap[:e.contexts], lanes, s.words, s.states[:])
	plane, tail := k.raw.Finish()

	nwords := uint64(len(words) / 2)
	dst = slices.Grow(dst, 1+wire.VarintLen(nwords)+stateBytes*lanes+len(words)+len(plane)+len(tail))
	dst = append(dst, bodyCoded|uint8(code)<<bodyKindBits)
	dst = wire.AppendVarint(dst, nwords)
	for _, x := range s.states[:lanes] {
		dst = binary.LittleEndian.AppendUint32(dst, x)
	}
	dst = append(dst, words...)
	dst = append(dst, plane...)
	dst = append(dst, tail...)
	return e.orStored(dst, start, &v)
}

// orStored replaces the body that begins at start unless it is shorter than the lane values themselves.
func (e *Encoder) orStored(dst []byte, start int, v *view) []byte {
	if len(dst)-start < 1+len(v.target) {
		return dst
	}
	return append(append(dst[:start], bodyStored), v.target...)
}

// Shares of lane values, one in so many, that may have changed for chunks to be sparse (section 36): of the tensor, and of the
// chunk.
const (
	sparseTensor = 8
	sparseShare  = 16
)

// allowsSparse reports whether chunks may be sparse (section 18).
func (h *header) allowsSparse(g *Geometry) bool { return h.mayBeSparse(g) && h.tables == tablesOwn }

// mayBeSparse reports the same when it is not known yet whether the tables are own ones.
func (h *header) mayBeSparse(g *Geometry) bool {
	s := &h.spec
	return s.Predictor == predictReference && s.Map == mapHybrid && s.K == 0 && s.Width <= 32 && g.DType.Components == 1
}

func (e *Encoder) appendSparse(dst []byte, j int, v *view, s *Scratch) []byte {
	s.clusters = sized(s.clusters, v.lanes+sparse.Slack)[:v.lanes]
	e.head.clusters(s.clusters, v, e.model.ContextMap)
	start := len(dst)
	chunk := sparse.Chunk{
		Spec: &e.head.spec, Target: v.target, Ref: v.ref, Clusters: s.clusters, Changed: s.changed, Lanes: laneCode,
	}
	if e.notKept[j] {
		var totals [model.MaxClusters]uint32
		for context, n := range e.totals[j] {
			totals[e.model.ContextMap[context]] += n
		}
		chunk.Totals = totals[:len(e.model.Freq)]
	}
	dst = e.sparse.Append(dst, &chunk, &s.sparse, bodyKindBits)
	dst[start] |= bodySparse
	return dst
}
