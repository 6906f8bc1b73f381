package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/schedule"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// batchStep reads the blobs of a row of small tensors at once and decodes them.
func (l *loader) batchStep(jobs []*job) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		s := l.scratch(worker)
		first, last := &jobs[0].entry.Tail, &jobs[len(jobs)-1].entry.Tail
		start := first.Offset - first.prefixSize()
		b := l.memory.get()
		defer func() { l.memory.put(b) }()
		b = grown(b, last.Offset+last.NBytes-start)
		err := readAt(l.r, b, start)
		for _, j := range jobs {
			t := &j.entry.Tail
			at := t.Offset - t.prefixSize() - start
			e := err
			if e == nil {
				e = l.decodeSmall(j, b[at:t.Offset+t.NBytes-start], s)
			}
			if e != nil {
				j.fail(0, e)
				if !l.opt.Salvage {
					return j.item.Err
				}
			}
			if !l.checkOnly {
				l.opt.progress(j.to - j.from)
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
func (l *loader) decodeSmall(j *job, b []byte, s *blob.Scratch) error {
	t := &j.entry.Tail
	if err := t.checkPrefix(b[:t.prefixSize()]); err != nil {
		return err
	}
	b = b[t.prefixSize():]
	if checksum(b) != t.Checksum {
		return fault.Corrupt("the blob does not have its checksum")
	}
	d := s.Decoder()
	err := d.Open(j.entry.Geometry, t.record(), func(from, to uint64) ([]byte, error) { return b[from:to], nil })
	if err != nil {
		return err
	}
	if err := d.CheckConstant(s); err != nil {
		return err
	}
	for i := j.first; i < j.last; i++ {
		from, to := d.Extent(i)
		if err := j.chunk(d, i, b[from:to], s, l.checkOnly); err != nil {
			return err
		}
	}
	return nil
}

// checkPrefix checks the plan and the length that stand before a blob against those of the tail.
func (e *TailEntry) checkPrefix(b []byte) error {
	r := wire.NewReader(b)
	if plan, n := r.U8(), r.Varint(); r.Err() != nil || plan != e.Plan || n != e.NBytes || r.Len() > 0 {
		return fault.Corrupt("the plan or length before the blob is not that of the tail")
	}
	return nil
}

// record is what the tail says to blob.Decoder.
func (e *TailEntry) record() blob.Record {
	return blob.Record{
		Plan: e.Plan, NBytes: e.NBytes, Fingerprint: e.Fingerprint, NeedsReference: e.NeedsReference, RefFingerprint: e.RefFingerprint,
	}
}
