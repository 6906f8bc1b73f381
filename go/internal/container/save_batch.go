package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// batchStep codes a row of small tensors, from one place in the order of blobs to another, into one buffer and writes it.
func (s *saver) batchStep(from, to int) schedule.Step {
	var coded []byte
	return schedule.Step{
		Run: func(worker int) error {
			scratch := s.scratch(worker)
			coded = s.memory.get()
			for place := from; place < to; place++ {
				coded = s.encodeSmall(coded, s.d.at(place), scratch)
			}
			return nil
		},
		Emit: func() error {
			at := s.out.at
			if err := s.out.write(coded); err != nil {
				return err
			}
			s.memory.put(coded)
			for place := from; place < to; place++ {
				t := &s.d.Tensors[s.d.at(place)].Tail
				t.Offset = at + t.prefixSize()
				at = t.Offset + t.NBytes
			}
			return nil
		},
	}
}

// encodeSmall appends the blob of tensor i, with its plan and length before it.
func (s *saver) encodeSmall(dst []byte, i int, scratch *blob.Scratch) []byte {
	e := &s.d.Tensors[i]
	dst, r := scratch.Encode(dst, s.input(i), appendPrefix)
	s.results[i] = r
	e.Tail = tailEntry(r, checksum(dst[uint64(len(dst))-r.NBytes:]))
	s.opt.progress(e.Geometry.NBytes())
	return dst
}

// appendPrefix appends what precedes the blob of a small tensor.
func appendPrefix(dst []byte, r blob.Result) []byte {
	t := TailEntry{Plan: r.Plan, NBytes: r.NBytes}
	return t.appendPrefix(dst)
}

func tailEntry(r blob.Result, checksum uint64) TailEntry {
	return TailEntry{Plan: r.Plan, NBytes: r.NBytes, Fingerprint: r.Fingerprint, Slots: r.Slots, Checksum: checksum}
}
