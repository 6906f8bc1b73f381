package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/schedule"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// batchStep reads the blobs of a row of small tensors, each a family of its own, at once and decodes them.
func (l *loader) batchStep(families []*family) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		s := l.scratch(worker)
		first, last := &families[0].members[0].entry.Tail, &families[len(families)-1].members[0].entry.Tail
		start := first.Offset - first.prefixSize()
		b := l.memory.get()
		defer func() { l.memory.put(b) }()
		b = grown(b, last.Offset+last.NBytes-start)
		err := readAt(l.r, b, start)
		for _, f := range families {
			m := f.members[0]
			t := &m.entry.Tail
			at := t.Offset - t.prefixSize() - start
			e := err
			if e == nil {
				e = l.decodeSmall(m, b[at:t.Offset+t.NBytes-start], s)
			}
			if e != nil {
				m.fail(0, e)
				if !l.opt.Salvage {
					return m.error()
				}
			}
			if !l.checkOnly {
				l.opt.progress(m.done(0, m.entry.Geometry.NBytes()))
			}
		}
		return nil
	}}
}

// grown returns a slice of n bytes with unspecified content, b if it is large enough.
func grown(b []byte, n uint64) []byte {
	if uint64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// decodeSmall checks and decodes a tensor whose blob, with its plan and length before it, is in memory.
func (l *loader) decodeSmall(m *member, b []byte, s *blob.Scratch) error {
	t := &m.entry.Tail
	if err := t.checkPrefix(b[:t.prefixSize()]); err != nil {
		return err
	}
	b = b[t.prefixSize():]
	if checksum(b) != t.Checksum {
		return fault.Corrupt("the blob does not have its checksum")
	}
	d := s.Decoder()
	err := d.Open(m.entry.Geometry, l.record(t), func(from, to uint64) ([]byte, error) { return b[from:to], nil })
	if err != nil {
		return err
	}
	if err := d.CheckConstant(s); err != nil {
		return err
	}
	for i, last := m.chunks(); i < last; i++ {
		if !m.wants(i) {
			continue
		}
		from, to := d.Extent(i)
		if _, err := l.chunk(m, d, i, b[from:to], nil, nil, s); err != nil {
			return err
		}
	}
	return nil
}

// checkPrefix checks the plan and the length that stand before a blob against those of the tail.
func (e *TailEntry) checkPrefix(b []byte) error {
	r := wire.NewReader(b)
	if plan, n := r.U8(), r.Varint(); r.Err() != nil || plan != e.Plan || n != e.prefixLength() || r.Len() > 0 {
		return fault.Corrupt("the plan or length before the blob is not that of the tail")
	}
	return nil
}

// record is what the tail says to blob.Decoder.
func (l *loader) record(e *TailEntry) blob.Record {
	return blob.Record{
		Minor: l.x.Minor, Plan: e.Plan, NBytes: e.NBytes, Fingerprint: e.Fingerprint, Slots: e.Slots,
	}
}

// chunk decodes chunk i of a member, given its coded bytes, and returns the value: at its place in an output, or, where there
// is none, in memory (nil: the scratch memory). values finds the decoded chunks of members whose values are needed.
func (l *loader) chunk(m *member, d *blob.Decoder, i uint64, coded []byte, values func(*member) []byte, memory []byte, s *blob.Scratch) ([]byte, error) {
	slots, ok := m.slots(i, values, s)
	if l.checkOnly || !ok {
		return nil, m.slotError(d.CheckSlots(i, slots))
	}
	from, to := m.entry.Geometry.Chunk(i)
	dst := memory
	if dst == nil {
		dst = m.place(from, to)
	}
	if dst == nil {
		dst = s.Chunk(int(to - from))
	}
	if err := d.Chunk(i, dst, slots, coded, s); err != nil {
		return nil, m.slotError(err)
	}
	if memory == nil {
		m.deliver(dst, from)
	}
	return dst, nil
}

// slots gathers chunk i of the slots; ok is false if one of them is not there, so that nothing can be decoded.
func (m *member) slots(i uint64, values func(*member) []byte, s *blob.Scratch) (slots [][]byte, ok bool) {
	slots = s.Slots(len(m.sources))
	ok = true
	for k, x := range m.sources {
		from, to := x.m.entry.Geometry.Chunk(i)
		switch {
		case x.value && values != nil:
			slots[k] = values(x.m)
		case !x.value && x.m.ref != nil:
			slots[k] = x.m.ref[from:to]
		}
		ok = ok && slots[k] != nil
	}
	return slots, ok
}

// place is the place of the bytes from .. to of the value in an output, nil if none has it whole.
func (m *member) place(from, to uint64) []byte {
	for _, r := range m.requests {
		if dst := r.place(from, to); dst != nil {
			return dst
		}
	}
	return nil
}

// deliver copies bytes from .. of the value to the outputs that ask for some and do not have them yet.
func (m *member) deliver(value []byte, from uint64) {
	for _, r := range m.requests {
		if dst := r.place(from, from+uint64(len(value))); dst == nil || &dst[0] != &value[0] {
			r.copy(value, from)
		}
	}
}
