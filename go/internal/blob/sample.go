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
	zs                      []uint64
	ix                      []uint16
	histogram               model.Histogram
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

// estimate is the estimate of section 21 for one way of coding the tensor.
func (s *sample) estimate(spec *transform.Spec) uint64 {
	s.ix = sized(s.ix, s.lanes)
	spec.Tokens(s.ix, s.target, s.ref)
	s.histogram.Reset(spec.Contexts(), spec.Alphabet())
	s.histogram.Add(s.ix)
	return model.EstimateBits16(&s.histogram, rawBits(spec, s.ix), s.all, uint64(s.lanes))
}

// rawBits is the number of tail and plane bits that belong to tokens (ix holds context<<8 | token).
func rawBits(s *transform.Spec, ix []uint16) uint64 {
	switch s.Map {
	case mapHybrid:
		sum := s.K * len(ix)
		for _, v := range ix {
			sum += max(int(v&0xff)>>2-1, 0)
		}
		return uint64(sum)
	case mapLeading:
		values := 0
		for _, v := range ix {
			values += int((v&0xff + 0xff) >> 8) // 1 unless the token is 0
		}
		return uint64(s.T * values)
	default:
		return 0
	}
}
