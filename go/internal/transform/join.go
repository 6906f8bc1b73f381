package transform

// Join is the inverse of Split: tokens and raw bits become len(tokens) lane values in dst. dst and ref (nil for predictor 0) hold
// len(tokens)*Width/8 bytes and may be the same memory, but not overlap otherwise. ok is false if raw is too short, a token is outside
// the alphabet or a value does not fit the width; what dst holds then is unspecified.
func (s *Spec) Join(dst, ref []byte, tokens []uint8, raw *RawReader) (ok bool) {
	ref = s.check(len(tokens), dst, ref)
	switch s.Width {
	case 8:
		joinDirect(s, dst, ref, tokens)
		return true
	case 16:
		return joinWide[uint16](s, dst, ref, tokens, raw)
	case 32:
		return joinWide[uint32](s, dst, ref, tokens, raw)
	default:
		return joinWide[uint64](s, dst, ref, tokens, raw)
	}
}
