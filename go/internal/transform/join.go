package transform

import "github.com/ulpack/ulpack/go/internal/le"

// Join is the inverse of Split: tokens and raw bits become len(tokens) lane values in dst. dst and ref (nil for predictor 0) hold
// len(tokens)*Width/8 bytes and may be the same memory, but not overlap otherwise. ok is false if raw is too short, a token is outside
// the alphabet or a value does not fit the width; what dst holds then is unspecified.
func (s *Spec) Join(dst, ref []byte, tokens []uint8, raw *RawReader) (ok bool) {
	ref = s.check(len(tokens), dst, ref)
	if raw.bad || s.badTokens(tokens) {
		raw.bad = true
		return false
	}
	n, ok := s.joinKernels(dst, ref, tokens, raw)
	return ok && s.joinGeneric(dst[n*s.Width/8:], ref[n*s.Width/8:], tokens[n:], raw)
}

// badTokens reports whether a token is outside the alphabet or, with map 1, stands for values that do not fit the width.
func (s *Spec) badTokens(tokens []uint8) bool {
	last := s.lastToken()
	if last >= 255 {
		return false
	}
	if n := len(tokens) &^ (statBlock - 1); n > 0 && hasKernels() {
		if largestToken(tokens[:n]) > last {
			return true
		}
		tokens = tokens[n:]
	}
	// Eight at a time: the top bit of a byte is set where the token is above last. Its low seven bits cannot carry into the next byte.
	const low7, top = 0x7f7f7f7f7f7f7f7f, 0x8080808080808080
	add := uint64(127-last&127) * 0x0101010101010101
	var bad uint64
	for ; len(tokens) >= 8; tokens = tokens[8:] {
		x := le.Load64(tokens, 0)
		above := x&low7 + add
		if last < 128 {
			bad |= above | x
		} else {
			bad |= above & x
		}
	}
	result := bad&top != 0
	for _, token := range tokens {
		result = result || int(token) > last
	}
	return result
}

// lastToken is the largest token that a value of the width can have.
func (s *Spec) lastToken() int {
	last := s.Alphabet() - 1
	if s.Map != MapLeading {
		return last
	}
	limit := uint64(1) << (s.Width - s.T)
	if s.Base >= limit {
		return 0
	}
	return int(min(uint64(last), limit-s.Base))
}
