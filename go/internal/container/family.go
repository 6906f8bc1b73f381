package container

import (
	"cmp"
	"slices"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// family is a set of tensors that are decoded together, chunk by chunk, since they need each other: their values, or
// references that a value may be written over. The members are in the order of blobs. Most have one member.
type family struct {
	members []*member
	inPlace bool // an output lies where a reference of the family does
}

// resolve makes a request of each item, checks what the call alone can get wrong, and finds the tensors that are needed
// besides.
func (l *loader) resolve(items []Item) error {
	for i := range items {
		it := &items[i]
		it.Err, it.Fingerprint = nil, 0
		if it.Tensor < 0 || it.Tensor >= len(l.x.Tensors) {
			return fault.Argument("item %d asks for tensor %d of %d", i, it.Tensor, len(l.x.Tensors))
		}
		e := &l.x.Tensors[it.Tensor]
		r, err := newRequest(it, e, l.opt.VerifyOnly)
		if err != nil {
			return err.At(it.Tensor, -1)
		}
		it.Fingerprint = e.Tail.Fingerprint
		m := l.member(it.Tensor, it.Ref)
		m.requests = append(m.requests, r)
	}
	for _, m := range l.members {
		for _, r := range m.requests {
			if r.first < r.last || m.entry.Geometry.Elements == 0 {
				l.need(m)
				break
			}
		}
	}
	for _, m := range l.members {
		first, last := m.chunks()
		m.whole = first == 0 && last == m.entry.Geometry.Chunks() && (last == 0 || m.oneRange(last))
	}
	l.group()
	return nil
}

// oneRange reports whether one request, of the member or of a dependent, is for all of n chunks.
func (m *member) oneRange(n uint64) bool {
	for _, r := range m.requests {
		if r.first == 0 && r.last == n {
			return true
		}
	}
	for _, d := range m.dependents {
		if d.oneRange(n) {
			return true
		}
	}
	return false
}

// member returns the member for a tensor with a reference. Items of a tensor share one if their references are the same
// memory.
func (l *loader) member(tensor int, ref []byte) *member {
	for _, m := range l.byTensor[tensor] {
		if sameMemory(m.ref, ref) {
			return m
		}
	}
	m := &member{tensor: tensor, entry: &l.x.Tensors[tensor], ref: ref}
	l.members = append(l.members, m)
	l.byTensor[tensor] = append(l.byTensor[tensor], m)
	return m
}

// any returns a member for a tensor that is needed, one with a reference if possible.
func (l *loader) any(tensor int) *member {
	list := l.byTensor[tensor]
	for _, m := range list {
		if m.ref != nil {
			return m
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return l.member(tensor, nil)
}

// need finds where the slots of a member come from, and of those that it needs.
func (l *loader) need(m *member) {
	if m.sources != nil {
		return
	}
	m.sources = make([]source, len(m.entry.Tail.Slots))
	for i := range m.sources {
		s := &m.entry.Tail.Slots[i]
		switch s.Role {
		case blob.RoleReference:
			m.sources[i] = source{m, false}
		case blob.RoleOtherReference:
			m.sources[i] = source{l.any(s.Tensor), false}
		default:
			other := l.any(s.Tensor)
			m.sources[i] = source{other, true}
			other.dependents = append(other.dependents, m)
			l.need(other)
		}
	}
}

// group sorts the members into families, in the order of the file.
func (l *loader) group() {
	slices.SortStableFunc(l.members, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.entry.Tail.Offset, b.entry.Tail.Offset), cmp.Compare(a.tensor, b.tensor))
	})
	head := make(map[*member]*member, len(l.members)) // towards the first member of a family
	find := func(m *member) *member {
		for head[m] != nil {
			m = head[m]
		}
		return m
	}
	place := make(map[*member]int, len(l.members))
	for i, m := range l.members {
		place[m] = i
	}
	for _, m := range l.members {
		for _, s := range m.sources {
			a, b := find(m), find(s.m)
			if place[a] > place[b] {
				a, b = b, a
			}
			if a != b {
				head[b] = a
			}
		}
	}
	families := make(map[*member]*family, len(l.members))
	for _, m := range l.members {
		h := find(m)
		f := families[h]
		if f == nil {
			f = new(family)
			families[h] = f
			l.families = append(l.families, f)
		}
		f.members = append(f.members, m)
	}
}

// refuse marks the members that cannot be decoded: a reference is missing or has the wrong size, or the blob is too large.
func (l *loader) refuse() {
	for _, m := range l.members {
		if t := &m.entry.Tail; t.NBytes > m.entry.Geometry.MaxNBytes() {
			m.fail(0, fault.Corrupt("a blob of %d bytes for a value of %d", t.NBytes, m.entry.Geometry.NBytes()))
		}
		for _, s := range m.sources {
			if s.value {
				continue
			}
			want := s.m.entry.Geometry.NBytes()
			s.m.lends = len(s.m.ref) > 0
			switch {
			case s.m.ref == nil && (l.opt.VerifyOnly || want == 0):
			case s.m.ref == nil:
				m.fail(0, fault.Reference("%s is missing", s.m.refName(m)))
			case uint64(len(s.m.ref)) != want:
				m.fail(0, fault.Reference("%s has %d bytes, the file was made against %d", s.m.refName(m), len(s.m.ref), want))
			}
		}
	}
	for _, f := range l.families { // in the order of blobs, so that errors reach all that need the tensor
		for _, m := range f.members {
			m.inherit(0)
		}
	}
}

// inherit makes an error of a tensor whose value is needed an error of this one, and reports whether there was one at or
// before a chunk.
func (m *member) inherit(chunk uint64) bool {
	for _, s := range m.sources {
		if !s.value {
			continue
		}
		if err := s.m.failedBefore(chunk); err != nil {
			e := fault.New(err.Kind, "%q, which this tensor needs: %s", s.m.entry.Name, err.Msg)
			e.Errno = err.Errno
			m.fail(chunk, e)
			return true
		}
	}
	return false
}
