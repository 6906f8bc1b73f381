package blob

import (
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// The sample of FORMAT.md section 21.
const (
	sampleWhole = 8192 // up to this many lane values the sample is all of them
	sampleRuns  = 64
	sampleRun   = 128
)

// sample holds the lane values on which the choice of plan rests, and the memory to judge them.
type sample struct {
	target, ref []byte // ref nil: no reference
	all         uint64 // lane values of the tensor
	lanes       int    // lane values of the sample

	targetMemory, refMemory []byte
	ix                      []uint16
	leading                 leadingCount
}

// take draws the sample of a tensor with lane values of laneBytes.
func (s *sample) take(target, ref []byte, laneBytes int) {
	m := len(target) / laneBytes
	s.all = uint64(m)
	if m <= sampleWhole {
		s.target, s.ref, s.lanes = target, ref, m
		return
	}
	s.lanes = sampleRuns * sampleRun
	s.targetMemory = gather(s.targetMemory, target, m, laneBytes)
	s.target, s.ref = s.targetMemory, nil
	if ref != nil {
		s.refMemory = gather(s.refMemory, ref, m, laneBytes)
		s.ref = s.refMemory
	}
}

// forget drops what belongs to the caller.
func (s *sample) forget() { s.target, s.ref = nil, nil }

// whole reports whether the sample is the tensor.
func (s *sample) whole() bool { return uint64(s.lanes) == s.all }

// gather copies the runs of the sample out of m lane values.
func gather(dst, from []byte, m, laneBytes int) []byte {
	dst = sized(dst, sampleRuns*sampleRun*laneBytes)
	for b := range sampleRuns {
		start := b * (m - sampleRun) / (sampleRuns - 1)
		copy(dst[b*sampleRun*laneBytes:][:sampleRun*laneBytes], from[start*laneBytes:])
	}
	return dst
}

// refFor is the reference, or nil where spec does not use it.
func (s *sample) refFor(spec *transform.Spec) []byte {
	if spec.Predictor == predictNothing {
		return nil
	}
	return s.ref
}

// estimate is the estimate of section 21 for the tokens in h.
func (s *sample) estimate(h *model.Histogram, rawBits uint64) uint64 {
	return model.EstimateBits16(h, rawBits, s.all, uint64(s.lanes))
}
