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

func joinWide[T uint16 | uint32 | uint64](s *Spec, dst, ref []byte, tokens []uint8, raw *RawReader) bool {
	var pad pads
	laneBytes := s.Width / 8
	for len(tokens) > 0 {
		count, plane, tail, planePos, tailPos := raw.window(s, len(tokens), &pad)
		var planeEnd, tailEnd int
		var ok bool
		switch {
		case s.Map == MapLeading:
			planeEnd, tailEnd, ok = joinLeading[T](s, dst, ref, tokens[:count], plane, tail, planePos, tailPos)
		case s.Width-s.K == 64:
			planeEnd, tailEnd, ok = joinHybrid64[T](s, dst, ref, tokens[:count], plane, tail, planePos, tailPos)
		default:
			planeEnd, tailEnd, ok = joinHybrid[T](s, dst, ref, tokens[:count], plane, tail, planePos, tailPos)
		}
		if !raw.advance(planeEnd-planePos, tailEnd-tailPos) || !ok {
			raw.bad = true
			return false
		}
		dst, ref, tokens = dst[count*laneBytes:], ref[count*laneBytes:], tokens[count:]
	}
	return true
}
