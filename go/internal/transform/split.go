package transform

// Split codes len(ix) lane values. target and ref (nil for predictor 0) hold len(ix)*Width/8 bytes; ix[i] becomes context<<8 | token.
// Plane bytes and tails are appended to raw, which needs no memory if Reserve was called for these values. The result tells whether any
// z differs from 0.
func (s *Spec) Split(ix []uint16, target, ref []byte, raw *RawWriter) (any bool) {
	ref = s.check(len(ix), target, ref)
	raw.Reserve(s, len(ix))
	return s.split(ix, target, ref, raw)
}

// Tokens is Split without the raw bits.
func (s *Spec) Tokens(ix []uint16, target, ref []byte) (any bool) {
	return s.split(ix, target, s.check(len(ix), target, ref), nil)
}

func (s *Spec) split(ix []uint16, target, ref []byte, raw *RawWriter) bool {
	n, seen := s.splitKernels(ix, target, ref, raw)
	any := s.splitGeneric(ix[n:], target[n*s.Width/8:], ref[n*s.Width/8:], raw)
	return seen || any
}

// Zs fills dst with the z of len(dst) lane values (FORMAT.md section 8).
func (s *Spec) Zs(dst []uint64, target, ref []byte) {
	ref = s.check(len(dst), target, ref)
	switch s.Width {
	case 8:
		zs[uint8](s, dst, target, ref)
	case 16:
		zs[uint16](s, dst, target, ref)
	case 32:
		zs[uint32](s, dst, target, ref)
	default:
		zs[uint64](s, dst, target, ref)
	}
}

// check panics unless the buffers hold m lane values; with predictor 0 the target stands in for the reference, whose bits are unused.
func (s *Spec) check(m int, target, ref []byte) []byte {
	if s.Predictor == PredictNone {
		ref = target
	}
	nbytes := m * s.Width / 8
	_, _ = target[:nbytes], ref[:nbytes]
	return ref
}
