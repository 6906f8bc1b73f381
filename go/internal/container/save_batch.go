package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/schedule"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// batchStep codes a row of small tensors into one buffer and writes it.
func (s *saver) batchStep(from, to int) schedule.Step {
	var coded []byte
	return schedule.Step{
		Run: func(worker int) error {
			scratch := s.scratch(worker)
			coded = s.memory.get()
			for i := from; i < to; i++ {
				coded = s.encodeSmall(coded, i, scratch)
			}
			return nil
		},
		Emit: func() error {
			at := s.out.at
			if err := s.out.write(coded); err != nil {
				return err
			}
			s.memory.put(coded)
			for i := from; i < to; i++ {
				t := &s.d.Tensors[i].Tail
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
	dst, r := scratch.Encode(dst, e.Geometry, s.data[i].Target, s.data[i].Ref, appendPrefix)
	s.results[i] = r
	e.Tail = tailEntry(r, checksum(dst[uint64(len(dst))-r.NBytes:]))
	s.opt.progress(e.Geometry.NBytes())
	return dst
}

// appendPrefix appends what precedes a blob.
func appendPrefix(dst []byte, r blob.Result) []byte {
	return wire.AppendVarint(append(dst, r.Plan), r.NBytes)
}

func tailEntry(r blob.Result, checksum uint64) TailEntry {
	return TailEntry{
		Plan: r.Plan, NBytes: r.NBytes, Fingerprint: r.Fingerprint, NeedsReference: r.NeedsReference,
		RefFingerprint: r.RefFingerprint, Checksum: checksum,
	}
}
