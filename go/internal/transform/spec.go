package transform

// Context parts (FORMAT.md section 7): where the context of a lane value comes from.
const (
	ContextNone     = 0 // one context
	ContextExponent = 1 // exponent field of the reference, 32 contexts
	ContextByte     = 2 // reference byte, 256 contexts
)

// Token maps (FORMAT.md section 7).
const (
	MapHybrid  = 0 // hybrid unsigned integer
	MapLeading = 1 // leading bits of the value
	MapDirect  = 2 // the value itself, 8-bit lanes
)

// Predictors (FORMAT.md section 7).
const (
	PredictNone      = 0
	PredictReference = 1
)

// Spec says how lane values are coded. The fields are those of the header of a coded tensor (FORMAT.md section 7); the kernels rely on
// the rules there, which Valid checks.
type Spec struct {
	Width       int  // w, bits of a lane value
	Float       bool // kind of the lane values
	ExpBits     int  // floats only
	MantBits    int  // floats only
	Predictor   uint8
	Map         uint8
	K           int    // bits of the raw plane
	T           int    // map 1: lowest bit of the token
	Base        uint64 // map 1: value of token 1
	A           int    // map 1: number of tokens
	ContextPart uint8
	ExpBase     uint32 // context part 1: exponent of context 0
}

// Valid reports whether the fields obey the rules of FORMAT.md section 7.
func (s *Spec) Valid() bool {
	switch s.Width {
	case 8, 16, 32, 64:
	default:
		return false
	}
	if s.Float && s.Width != 1+s.ExpBits+s.MantBits {
		return false
	}
	if s.Predictor > PredictReference || s.K%8 != 0 || s.K < 0 || s.K > 48 || s.K >= s.Width {
		return false
	}
	wide := s.Width >= 16
	switch s.Map {
	case MapHybrid:
		if !wide {
			return false
		}
	case MapLeading:
		if !wide || !s.Float || s.Predictor != PredictNone || s.T < max(s.K, 1) || s.T >= s.Width || s.A < 2 || s.A > 256 {
			return false
		}
	case MapDirect:
		if wide || s.K != 0 {
			return false
		}
	default:
		return false
	}
	switch s.ContextPart {
	case ContextNone:
		return true
	case ContextExponent:
		return wide && s.Float && s.Predictor == PredictReference
	case ContextByte:
		return !wide && s.Predictor == PredictReference
	default:
		return false
	}
}

// Alphabet is the number of tokens.
func (s *Spec) Alphabet() int {
	switch s.Map {
	case MapHybrid:
		return 4*(s.Width-s.K-3) + 8
	case MapLeading:
		return s.A
	default:
		return 256
	}
}

// Contexts is the number of contexts.
func (s *Spec) Contexts() int {
	switch s.ContextPart {
	case ContextExponent:
		return 32
	case ContextByte:
		return 256
	default:
		return 1
	}
}

// MaxTailBits is the largest number of tail bits of one lane value.
func (s *Spec) MaxTailBits() int {
	switch s.Map {
	case MapHybrid:
		return s.Width - s.K - 3
	case MapLeading:
		return s.T - s.K
	default:
		return 0
	}
}

// PlaneValues is the number of lane values that have bits in the raw plane (FORMAT.md section 8): with map 1, those with a token
// other than 0.
func PlaneValues(tokenMap uint8, tokens []uint8) int {
	if tokenMap != MapLeading {
		return len(tokens)
	}
	n := 0
	for _, s := range tokens {
		n += int((uint(s) + 255) >> 8) // 1 unless s is 0
	}
	return n
}
