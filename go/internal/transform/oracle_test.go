package transform

import (
	"fmt"
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/testkit"
)

// The oracle follows FORMAT.md sections 8, 9 and 11 line by line, with nothing in common with the kernels.

type bitString []byte // one bit a byte

func (b *bitString) put(v uint64, n int) {
	for i := range n {
		*b = append(*b, byte(v>>i&1))
	}
}

func (b bitString) bytes() []byte {
	out := make([]byte, (len(b)+7)/8)
	for i, bit := range b {
		out[i/8] |= bit << (i % 8)
	}
	return out
}

func oracleKey(s *Spec, u uint64) uint64 {
	top := uint64(1) << (s.Width - 1)
	switch {
	case !s.Float:
		return u
	case u&top == 0:
		return u ^ top
	default:
		return ^u & (top | (top - 1))
	}
}

func oracleZ(s *Spec, x, r uint64) uint64 {
	top := uint64(1) << (s.Width - 1)
	all := top | (top - 1)
	if s.Predictor == 0 && s.Float {
		return x<<1&all | x>>(s.Width-1)
	}
	d := x
	if s.Predictor == 1 {
		d = (oracleKey(s, x) - oracleKey(s, r)) & all
	}
	if d&top == 0 { // d >= 0: 2d
		return d << 1 & all
	}
	return (2*(-d&all) - 1) & all // d < 0: 2|d| - 1
}

type oracleResult struct {
	ix          []uint16
	plane, tail []byte
	tailBits    int
	any         bool
}

func oracleSplit(s *Spec, m int, target, ref []byte) (out oracleResult) {
	var tail bitString
	out.ix = make([]uint16, 0, m)
	for i := range m {
		x, r := testkit.Lane(target, i, s.Width), uint64(0)
		if ref != nil {
			r = testkit.Lane(ref, i, s.Width)
		}
		z := oracleZ(s, x, r)
		out.any = out.any || z != 0
		var token uint64
		hasPlane := true
		switch s.Map {
		case 0:
			y := z >> s.K
			n := max(bits.Len64(y)-3, 0)
			token = uint64(4*n) + y>>n
			tail.put(y, n)
		case 1:
			if z == 0 {
				hasPlane = false
			} else {
				token = z>>s.T - s.Base + 1
				tail.put(z>>s.K, s.T-s.K)
			}
		case 2:
			token = z
		}
		if hasPlane {
			for b := range s.K / 8 {
				out.plane = append(out.plane, byte(z>>(8*b)))
			}
		}
		context := uint64(0)
		switch s.ContextPart {
		case 1:
			e := int(r>>s.MantBits) & (1<<s.ExpBits - 1)
			context = uint64(min(max(e-int(s.ExpBase), 0), 31))
		case 2:
			context = r
		}
		if token >= uint64(s.Alphabet()) {
			panic(fmt.Sprint("token ", token, " of ", s))
		}
		out.ix = append(out.ix, uint16(context<<8|token))
	}
	out.tail, out.tailBits = tail.bytes(), len(tail)
	return out
}

// leading returns s with map 1 and the smallest t from t on that fits the values (FORMAT.md section 21).
func leading(s Spec, t int, target []byte) Spec {
	s.Map, s.Predictor, s.ContextPart, s.ExpBase = 1, 0, 0, 0
	for {
		lo, hi := uint64(0), uint64(0)
		found := false
		for i := range len(target) * 8 / s.Width {
			if z := oracleZ(&s, testkit.Lane(target, i, s.Width), 0); z != 0 {
				v := z >> t
				if !found || v < lo {
					lo = v
				}
				hi = max(hi, v)
				found = true
			}
		}
		if hi-lo+2 <= 256 {
			s.T, s.Base, s.A = t, lo, int(hi-lo)+2
			return s
		}
		t++
	}
}

type kind struct {
	name                    string
	width                   int
	float                   bool
	expBits, mantBits, base int
}

var kinds = []kind{
	{"bf16", 16, true, 8, 7, 100},
	{"f16", 16, true, 5, 10, 0},
	{"f32", 32, true, 8, 23, 97},
	{"f64", 64, true, 11, 52, 1000},
	{"e4m3", 8, true, 4, 3, 0},
	{"e5m2", 8, true, 5, 2, 0},
	{"i8", 8, false, 0, 0, 0},
	{"i16", 16, false, 0, 0, 0},
	{"i32", 32, false, 0, 0, 0},
	{"i64", 64, false, 0, 0, 0},
}

// specs lists every combination of predictor, map, plane and context part that FORMAT.md section 7 allows for a kind. Map 1 is fitted to
// target, with the canonical t, a larger one, and all K.
func specs(k kind, target []byte) (out []Spec) {
	s := Spec{Width: k.width, Float: k.float, ExpBits: k.expBits, MantBits: k.mantBits}
	for _, predictor := range []uint8{0, 1} {
		for _, part := range []uint8{0, 1, 2} {
			s.Predictor, s.ContextPart, s.ExpBase = predictor, part, 0
			if part == 1 {
				s.ExpBase = uint32(k.base)
			}
			s.Map, s.K = MapDirect, 0
			if k.width > 8 {
				s.Map = MapHybrid
			}
			for ; s.K < k.width && s.K <= 48; s.K += 8 {
				if s.Valid() {
					out = append(out, s)
				}
			}
		}
	}
	if k.float && k.width > 8 {
		first := leading(s, k.mantBits-1, target)
		for _, t := range []int{first.T, first.T + 1, k.width - 1} {
			for K := 0; K <= min(t, 48) && K < k.width; K += 8 {
				s.K = K
				l := leading(s, max(t, 1), target)
				if l.Valid() {
					out = append(out, l)
				}
			}
		}
	}
	return out
}

func (s Spec) name() string {
	return fmt.Sprintf("p%d/map%d/K%d/t%d/c%d", s.Predictor, s.Map, s.K, s.T, s.ContextPart)
}
