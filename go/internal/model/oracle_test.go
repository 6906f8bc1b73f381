package model

import (
	"math/big"
	"math/bits"
	"math/rand/v2"
)

// Sections 20, 10 and 22 word by word, for clarity and not for speed.

func oracleLog2(v uint64) uint64 {
	b := bits.Len64(v) - 1
	var i uint64
	if b <= 12 {
		i = v<<(12-b) - 4096
	} else {
		i = v>>(b-12) - 4096
	}
	return 65536*uint64(b) + oracleT[i]
}

var oracleT = func() (table [4096]uint64) {
	for i := range uint64(4096) {
		x, t := (4096+i)<<19, uint64(0)
		for range 16 {
			x = (x * x) >> 31
			t *= 2
			if x >= 1<<32 {
				t++
				x >>= 1
			}
		}
		table[i] = t
	}
	return table
}()

func oracleXLog(v uint64) uint64 {
	if v == 0 {
		return 0
	}
	return v * oracleLog2(v)
}

type oracleTables struct {
	p, tableLog int
	contextMap  []uint8
	codes       [][]uint8
	freq        [][]uint16

	parametric   bool
	shape, slope int
	scale        int
}

func oracleEntropy(counts []uint64) uint64 {
	total, sum := uint64(0), uint64(0)
	for _, n := range counts {
		total += n
		sum += oracleXLog(n)
	}
	return oracleXLog(total) - sum
}

func oracleCost(counts []uint64, p int) int64 {
	cells := 0
	for _, n := range counts {
		if n != 0 {
			cells++
		}
	}
	return int64(oracleEntropy(counts)) + 65536*int64(12+(p+2)*cells)
}

func oracleSum(a, b []uint64) []uint64 {
	sum := make([]uint64, len(a))
	for i := range a {
		sum[i] = a[i] + b[i]
	}
	return sum
}

// oracleBuild takes counts by context and token.
func oracleBuild(counts [][]uint64, spec ParamSpec) (t oracleTables) {
	n := uint64(0)
	for _, row := range counts {
		for _, v := range row {
			n += v
		}
	}
	t.p = 3
	if n < 1<<13 {
		t.p = 1
	} else if n < 1<<18 {
		t.p = 2
	}
	var clusters [][]uint64
	var firsts []int
	for c, row := range counts {
		if oracleCost(row, 0) != 12*65536 {
			clusters = append(clusters, row)
			firsts = append(firsts, c)
		}
	}
	for len(clusters) > 1 {
		at, most := 0, int64(0)
		for i := range len(clusters) - 1 {
			a, b := clusters[i], clusters[i+1]
			g := oracleCost(a, t.p) + oracleCost(b, t.p) - oracleCost(oracleSum(a, b), t.p)
			if i == 0 || g > most {
				at, most = i, g
			}
		}
		if most < 0 && len(clusters) <= 32 {
			break
		}
		clusters[at] = oracleSum(clusters[at], clusters[at+1])
		clusters = append(clusters[:at+1], clusters[at+2:]...)
		firsts = append(firsts[:at+1], firsts[at+2:]...)
	}
	k := 0
	for c := range counts {
		for k+1 < len(firsts) && firsts[k+1] <= c {
			k++
		}
		t.contextMap = append(t.contextMap, uint8(k))
	}
	entropy, own := uint64(0), int64(65536*24)
	for _, c := range clusters {
		entropy += oracleEntropy(c)
		own += oracleCost(c, t.p)
	}
	t.tableLog = 11
	if entropy < 98304*n {
		t.tableLog = 12
	}
	for _, c := range clusters {
		most := uint64(0)
		for _, v := range c {
			most = max(most, v)
		}
		q := make([]uint8, len(c))
		for s, v := range c {
			if v == 0 {
				continue
			}
			w := max(1<<t.p, v*32768/most)
			e := bits.Len64(w) - 1 - t.p
			if e > 0 {
				w += 1 << (e - 1)
				e = bits.Len64(w) - 1 - t.p
			}
			q[s] = uint8(e*(1<<t.p) + int(w>>e) - 1<<t.p + 1)
		}
		t.codes = append(t.codes, q)
		t.freq = append(t.freq, oracleNormalize(q, t.p, t.tableLog))
	}
	if n <= 1<<14 && (spec.Map != 1 || spec.T == spec.MantBits-1) {
		t.search(counts, n, own, spec)
	}
	return t
}

func (t *oracleTables) search(counts [][]uint64, n uint64, own int64, spec ParamSpec) {
	slopes := 1
	if spec.ContextPart == 1 {
		slopes = 2
	}
	least := int64(-1)
	rows := map[[2]int][]uint16{}
	var shape, slope, scale int
	for sh := range 5 {
		for sl := range slopes {
			g := uint64(0)
			for c, row := range counts {
				for s, v := range row {
					g += v * uint64(2*oracleExponent(s, spec)+2*sl*c)
				}
			}
			middle := int(g / n)
			for sc := middle - 3; sc <= middle+3; sc++ {
				limited := min(max(sc, -32), 160)
				estimate := int64(65536 * 16)
				for c, row := range counts {
					cs := min(max(limited-2*sl*c, -32), 160)
					if rows[[2]int{sh, cs}] == nil {
						rows[[2]int{sh, cs}] = oracleRow(sh, cs, spec)
					}
					for s, v := range row {
						f := rows[[2]int{sh, cs}][s]
						estimate += int64(v) * (12*65536 - int64(oracleLog2(uint64(f))))
					}
				}
				if least < 0 || estimate < least {
					least = estimate
					shape, slope, scale = sh, sl, limited
				}
			}
		}
	}
	if least < own {
		t.parametric = true
		t.shape, t.slope, t.scale = shape, slope, scale
	}
}

func oracleExponent(s int, spec ParamSpec) int {
	switch {
	case s == 0:
		return 0
	case spec.Map == 0:
		return oracleBound(s, 0).BitLen() + spec.K
	case spec.Map == 1:
		return (s-1+int(spec.Base&3))>>2 + 1
	default:
		return bits.Len(uint(s))
	}
}

// oracleBound is the lower bound of token s of map 0 in units of 2^K.
func oracleBound(s int, k int) *big.Int {
	v := big.NewInt(int64(s))
	if s >= 8 {
		v = big.NewInt(int64(4 + s&3))
		v.Lsh(v, uint(s>>2-1))
	}
	return v.Lsh(v, uint(k))
}

func oracleNormalize(q []uint8, p, tableLog int) []uint16 {
	m := 1 << tableLog
	w := make([]int, len(q))
	total, used := 0, 0
	for s, c := range q {
		if c != 0 {
			w[s] = (1<<p + (int(c)-1)%(1<<p)) << ((int(c) - 1) >> p)
			used++
		}
		total += w[s]
	}
	f := make([]uint16, len(q))
	if used == 1 {
		for s := range w {
			if w[s] != 0 {
				f[s] = uint16(m - 1)
				if s == 0 {
					f[1] = 1
				} else {
					f[0] = 1
				}
			}
		}
		return f
	}
	sum := func() (n int) {
		for _, v := range f {
			n += int(v)
		}
		return n
	}
	top := func() (at int) {
		for s := range f {
			if f[s] > f[at] {
				at = s
			}
		}
		return at
	}
	for s := range w {
		if w[s] != 0 {
			f[s] = uint16(max(1, (w[s]*m+total/2)/total))
		}
	}
	for sum() > m {
		s := top()
		f[s] -= uint16(min(sum()-m, int(f[s])-1))
	}
	if s := top(); sum() < m {
		f[s] += uint16(m - sum())
	}
	return f
}

var oracleU = new(big.Int).Lsh(big.NewInt(1), 32)

// oracleDecay returns E(m, j) or Q(m, j), stepping from j = 0 each time.
func oracleDecay(start [2][4]uint64, times, h, m, j int) *big.Int {
	switch {
	case j < -40:
		return oracleU
	case j > 8:
		return new(big.Int)
	}
	v := new(big.Int).SetUint64(start[h][m-4])
	for range times * max(j, 0) {
		v = new(big.Int).Rsh(new(big.Int).Mul(v, v), 32)
	}
	for range times * max(-j, 0) {
		v = new(big.Int).Sqrt(new(big.Int).Lsh(v, 32))
	}
	return v
}

func oracleE(h, m, j int) *big.Int {
	return oracleDecay([2][4]uint64{{2147483648, 1805811301, 1518500250, 1276901417}, {1611532835, 1261272664, 987140130, 772589198}}, 1, h, m, j)
}

func oracleQ(h, m, j int) *big.Int {
	return oracleDecay([2][4]uint64{{2147483648, 1454120821, 902905651, 514109347}, {1073741824, 492312797, 189812531, 61539100}}, 2, h, m, j)
}

var oracleSurvivals = map[[4]int]*big.Int{}

// oracleSurvival returns S(m, j), remembering what it has computed.
func oracleSurvival(shape, h, m, j int) *big.Int {
	key := [4]int{shape, h, m, j}
	if oracleSurvivals[key] == nil {
		oracleSurvivals[key] = computeSurvival(shape, h, m, j)
	}
	return oracleSurvivals[key]
}

func computeSurvival(shape, h, m, j int) *big.Int {
	scaled := func(k int64, v *big.Int) *big.Int { return new(big.Int).Mul(big.NewInt(k), v) }
	sum := new(big.Int)
	switch shape {
	case 0:
		return oracleE(h, m, j)
	case 1:
		return sum.Rsh(sum.Mul(oracleE(h, m, j), oracleQ(h, m, j)), 32)
	case 2:
		return sum.Rsh(sum.Add(scaled(7, oracleE(h, m, j)), oracleE(h, m, j-3)), 3)
	case 3:
		return sum.Rsh(sum.Add(scaled(15, oracleE(h, m, j+4)), oracleE(h, m, j)), 4)
	}
	if j > 2 {
		return sum
	}
	if j <= -30 {
		return oracleU
	}
	c := []int64{1 << 32, 6074001000}[h]
	sum.Rsh(scaled(int64(m), big.NewInt(c)), uint(2-j))
	if sum.Sub(oracleU, sum); sum.Sign() < 0 {
		sum.SetInt64(0)
	}
	return sum
}

// oracleNormal writes v >= 1 as m * 2^q with m in 4 .. 7, rounding down.
func oracleNormal(v *big.Int) (m, q int) {
	q = v.BitLen() - 3
	w := new(big.Int).Set(v)
	if q >= 0 {
		w.Rsh(w, uint(q))
	} else {
		w.Lsh(w, uint(-q))
	}
	return int(w.Int64()), q
}

func oracleRow(shape, sc int, spec ParamSpec) []uint16 {
	h := ((sc % 2) + 2) % 2
	a := (sc + h) / 2
	point := func(s int) (m, j int) {
		switch spec.Map {
		case 0:
			m, j = oracleNormal(oracleBound(s, spec.K))
			return m, j + 2 - a
		case 1:
			v := s - 1 + int(spec.Base&3)
			return 4 + v&3, v>>2 - a
		default:
			m, j = oracleNormal(big.NewInt(int64(s)))
			return m, j + 2 - a
		}
	}
	above := func(s int) *big.Int {
		if s == 0 {
			return oracleU
		}
		if s == spec.A {
			return new(big.Int)
		}
		m, j := point(s)
		return oracleSurvival(shape, h, m, j)
	}
	f := make([]uint16, spec.A)
	left := 4096
	for s0 := 0; s0 < spec.A; {
		s1 := s0 + 1
		for s0 > 0 && spec.Map == 2 && s1 < spec.A {
			m0, j0 := point(s0)
			if m1, j1 := point(s1); m0 != m1 || j0 != j1 {
				break
			}
			s1++
		}
		w := new(big.Int).Sub(above(s0), above(s1))
		if w.Sign() < 0 {
			w.SetInt64(0)
		}
		w.Div(w, big.NewInt(int64(s1-s0)))
		w.Rsh(w.Mul(w, big.NewInt(int64(4096-spec.A))), 32)
		for s := s0; s < s1; s++ {
			f[s] = uint16(1 + w.Int64())
			left -= int(f[s])
		}
		s0 = s1
	}
	at := 0
	for s := range f {
		if f[s] > f[at] {
			at = s
		}
	}
	f[at] += uint16(left)
	return f
}

// randomCase is a spec with counts that look like tokens of some kind of data.
func randomCase(rng *rand.Rand) (spec ParamSpec, ix []uint16) {
	switch rng.IntN(5) {
	default:
		w := []int{16, 32, 64}[rng.IntN(3)]
		if w > 16 {
			spec.K = 8 * rng.IntN(3)
		}
		spec.A = 4*(w-spec.K-3) + 8
		spec.ContextPart = uint8(rng.IntN(2))
	case 3:
		spec = ParamSpec{Map: 1, A: 2 + rng.IntN(255), Base: rng.Uint64N(500), MantBits: 7, T: 6 + rng.IntN(2)}
	case 4:
		spec = ParamSpec{Map: 2, A: 256, ContextPart: uint8(2 * rng.IntN(2))}
	}
	n := []int{1, 2, 10, 100, 1000, 9000, 16384, 16385, 50000}[rng.IntN(9)]
	contexts := spec.Contexts()
	spread, size, slope := 0.02+rng.Float64(), rng.Float64()*24, rng.IntN(2)
	few := rng.IntN(4) == 0
	for range n {
		c := min(int(rng.ExpFloat64()*float64(contexts)*spread/4), contexts-1)
		y := uint64(rng.ExpFloat64() * float64(uint64(1)<<uint(max(size-float64(slope*c*32/contexts), 0))))
		tail := max(bits.Len64(y)-3, 0)
		s := min(4*tail+int(y>>tail), spec.A-1)
		if few {
			s = min(3*(s%2)+1, spec.A-1)
		}
		ix = append(ix, uint16(c<<8|s))
	}
	return spec, ix
}

func denseCounts(ix []uint16, contexts, tokens int) [][]uint64 {
	counts := make([][]uint64, contexts)
	for c := range counts {
		counts[c] = make([]uint64, tokens)
	}
	for _, v := range ix {
		counts[v>>8][v&255]++
	}
	return counts
}
