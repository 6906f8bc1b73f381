// Command avx2 writes the AVX2 and BMI2 kernels of package transform.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/emit"
	"github.com/ulpack/ulpack/go/asm/transform/bits"
)

func main() {
	ConstraintExpr("!purego")
	for _, width := range []int{16, 32} {
		clusters(width)
		for _, leading := range []bool{false, true} {
			splitWords(width, leading)
			joinWords(width, leading)
		}
	}
	for _, k := range []int{0, 8} {
		splitDwords(k)
		joinDwords(k)
	}
	splitDirect()
	joinDirect()
	tokenStats()
	Generate()
}

var tables = map[string]Mem{}

// bytes32 is a constant of 32 bytes.
func bytes32(name string, f func(i int) uint8) Mem {
	m, ok := tables[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := range 32 {
			DATA(i, U8(f(i)))
		}
		tables[name] = m
	}
	return m
}

func words(name string, v uint16) Mem {
	return bytes32(name, func(i int) uint8 { return uint8(v >> (8 * (i % 2))) })
}

func dwords(name string, v uint32) Mem {
	return bytes32(name, func(i int) uint8 { return uint8(v >> (8 * (i % 4))) })
}

func qwords(name string, v uint64) Mem {
	return bytes32(name, func(i int) uint8 { return uint8(v >> (8 * (i % 8))) })
}

func lowWord() Mem   { return dwords("lowWord", 0xffff) }
func lowDword() Mem  { return qwords("lowDword", 0xffffffff) }
func limit56() Mem   { return qwords("limit56", 56) }
func allOnes() Mem   { return words("allOnes", 0xffff) }
func oneWord() Mem   { return words("oneWord", 1) }
func oneDword() Mem  { return dwords("oneDword", 1) }
func lastWord() Mem  { return words("lastWord", 31) }
func lastDword() Mem { return dwords("lastDword", 31) }
func exponent4() Mem { return dwords("exponent4", 129) }
func exponent2() Mem { return dwords("exponent2", 128) }
func highByteX() Mem { return words("highByteX", 0x8000) }
func lowByteX() Mem  { return words("lowByteX", 0x0080) }
func maskLow() Mem {
	return bytes32("maskLow", func(i int) uint8 { return uint8(1<<min(i%16, 8) - 1) })
}
func maskHigh() Mem {
	return bytes32("maskHigh", func(i int) uint8 { return uint8(1<<(max(i%16, 8)-8) - 1) })
}
func firstBytes() Mem {
	return bytes32("firstBytes", func(i int) uint8 { return []uint8{0, 4, 8, 12, 0x80}[min(i%16, 4)] })
}
func dwordOrder() Mem {
	order := []uint8{0, 4, 1, 5, 2, 6, 3, 7}
	return bytes32("dwordOrder", func(i int) uint8 {
		if i%4 == 0 {
			return order[i/4]
		}
		return 0
	})
}

func load(m Mem) VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}

// wordsOf and dwordsOf fill a register with a parameter.
func wordsOf(p GPVirtual, i int) VecVirtual {
	y := YMM()
	VPBROADCASTW(bits.Field(p, i), y)
	return y
}

func dwordsOf(p GPVirtual, i int) VecVirtual {
	y := YMM()
	VPBROADCASTD(bits.Field(p, i), y)
	return y
}

func count(p GPVirtual, i int) VecVirtual {
	x := XMM()
	VMOVQ(bits.Field(p, i), x)
	return x
}

// slots are places of 32 bytes for parameters that do not fit the registers.
type slots struct {
	base GPVirtual
	used int
}

func (s *slots) keep(y VecVirtual) Mem {
	m := Mem{Base: s.base, Disp: s.used}
	s.used += 32
	VMOVDQU(y, m)
	return m
}

// exponents computes contexts from words.
type exponents struct {
	shift      VecVirtual
	mask, base Mem
}

func newExponents(p GPVirtual, s *slots) *exponents {
	return &exponents{count(p, bits.Shift), s.keep(wordsOf(p, bits.ExpMask)), s.keep(wordsOf(p, bits.ExpBase))}
}

func (e *exponents) context(r VecVirtual) {
	VPSRLW(e.shift, r, r)
	VPAND(e.mask, r, r)
	VPSUBUSW(e.base, r, r)
	VPMINUW(lastWord(), r, r)
}

func clusters(width int) {
	name := "clusters" + bits.Itoa(width) + "AVX2"
	emit.Begin(name, "func(dst, ref *byte, n int, p *[211]uint64, table *[32]byte)",
		name+" is Clusters with context part 1 for n lane values of "+bits.Itoa(width)+" bits, a multiple of 32.")
	dst, ref, n, p := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("n"), emit.Arg("p")
	s := &slots{base: emit.Scratch(64)}
	e := newExponents(p, s)
	table := emit.Arg("table")
	low, high := YMM(), YMM()
	VBROADCASTI128(Mem{Base: table}, low)
	VBROADCASTI128(Mem{Base: table, Disp: 16}, high)
	Label("block")
	var part [2]VecVirtual
	for i := range part {
		if width == 16 {
			part[i] = load(Mem{Base: ref, Disp: 32 * i})
		} else { // dwords 0-3, 8-11 | 4-7, 12-15 of the half block
			a, b := load(Mem{Base: ref, Disp: 64 * i}), load(Mem{Base: ref, Disp: 64*i + 32})
			VPSRLD(Imm(16), a, a)
			VPSRLD(Imm(16), b, b)
			VPACKUSDW(b, a, a)
			part[i] = a
		}
		e.context(part[i])
	}
	c, d, sel := YMM(), YMM(), YMM()
	VPACKUSWB(part[1], part[0], c)
	if width == 16 {
		VPERMQ(Imm(0xd8), c, c)
	} else {
		VPERMD(c, load(dwordOrder()), c)
	}
	VPSHUFB(c, low, d)
	VPSLLW(Imm(3), c, sel) // bit 4 to the top
	VPSHUFB(c, high, c)
	VPBLENDVB(sel, c, d, c)
	VMOVDQU(c, Mem{Base: dst})
	ADDQ(U32(uint32(4*width)), ref)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))
	emit.End()
}

// residual computes z from x and r, lanes of width bits.
type residual struct {
	width   int
	and, or Mem
}

func newResidual(width int, p GPVirtual, s *slots) *residual {
	of := wordsOf
	if width == 32 {
		of = dwordsOf
	}
	return &residual{width, s.keep(of(p, bits.And)), s.keep(of(p, bits.Or))}
}

func (q *residual) sign(v, dst VecVirtual) {
	if q.width == 16 {
		VPSRAW(Imm(15), v, dst)
	} else {
		VPSRAD(Imm(31), v, dst)
	}
}

func (q *residual) sub(b, a, dst VecVirtual) {
	if q.width == 16 {
		VPSUBW(b, a, dst)
	} else {
		VPSUBD(b, a, dst)
	}
}

func (q *residual) add(b, a, dst VecVirtual) {
	if q.width == 16 {
		VPADDW(b, a, dst)
	} else {
		VPADDD(b, a, dst)
	}
}

func (q *residual) key(v, dst VecVirtual) {
	t := YMM()
	q.sign(v, t)
	VPAND(q.and, t, t)
	VPOR(q.or, t, t)
	VPXOR(v, t, dst)
}

// forward turns x into z.
func (q *residual) forward(x, r VecVirtual) {
	k := YMM()
	q.key(x, x)
	q.key(r, k)
	q.sub(k, x, x)
	q.sign(x, k)
	q.add(x, x, x)
	VPXOR(k, x, x)
}

// backward turns z into x.
func (q *residual) backward(z, r VecVirtual) {
	odd, t := YMM(), YMM()
	VPXOR(t, t, t)
	if q.width == 16 {
		VPAND(oneWord(), z, odd)
		VPSRLW(Imm(1), z, z)
	} else {
		VPAND(oneDword(), z, odd)
		VPSRLD(Imm(1), z, z)
	}
	q.sub(odd, t, odd)
	VPXOR(odd, z, z)
	q.key(r, t)
	q.add(t, z, z)
	q.sign(z, t)
	VPANDN(q.and, t, t)
	VPOR(q.or, t, t)
	VPXOR(t, z, z)
}

// merger brings the tails of a register together into groups, which a Writer appends.
type merger struct {
	w       *bits.Writer
	scratch GPVirtual // 64 bytes
	long    func()    // code for groups that do not pair, to be placed behind the loop
}

// pairWords joins the tails v of n bits of two words in a dword.
func (m *merger) pairWords(v, n VecVirtual) {
	hi, hn := YMM(), YMM()
	VPSRLD(Imm(16), v, hi)
	VPSRLD(Imm(16), n, hn)
	VPAND(lowWord(), v, v)
	VPAND(lowWord(), n, n)
	m.append(v, n, hi, hn)
}

// append puts tails hi of hn bits behind tails v of n bits, in dwords.
func (m *merger) append(v, n, hi, hn VecVirtual) {
	VPSLLVD(n, hi, hi)
	VPOR(hi, v, v)
	VPADDD(hn, n, n)
}

func (m *merger) pairDwords(v, n VecVirtual) {
	hi, hn := YMM(), YMM()
	VPSRLQ(Imm(32), v, hi)
	VPSRLQ(Imm(32), n, hn)
	VPAND(lowDword(), v, v)
	VPAND(lowDword(), n, n)
	VPSLLVQ(n, hi, hi)
	VPOR(hi, v, v)
	VPADDQ(hn, n, n)
}

// put appends 4 groups of qwords, two at a time where both pairs have at most 56 bits. If a single group can have more and has, it goes to
// exit, before anything was written.
func (m *merger) put(v, n VecVirtual, exit string) {
	pair, pn, over, r := YMM(), YMM(), YMM(), GP32()
	VPUNPCKHQDQ(v, v, pair)
	VPUNPCKHQDQ(n, n, pn)
	VPSLLVQ(n, pair, pair)
	VPOR(v, pair, pair)
	VPADDQ(n, pn, pn)
	VPCMPGTQ(limit56(), pn, over)
	VMOVMSKPD(over, r)
	VMOVDQU(pair, Mem{Base: m.scratch})
	VMOVDQU(pn, Mem{Base: m.scratch, Disp: 32})
	TESTL(U32(5), r)
	JNZ(LabelRef("long"))
	for g := range 2 {
		m.w.Put(Mem{Base: m.scratch, Disp: 16 * g}, Mem{Base: m.scratch, Disp: 32 + 16*g})
	}
	Label("next")
	m.long = func() {
		Label("long")
		if exit != "" {
			VPCMPGTQ(limit56(), n, over)
			VMOVMSKPD(over, r)
			TESTL(r, r)
			JNZ(LabelRef(exit))
		}
		VMOVDQU(v, Mem{Base: m.scratch})
		VMOVDQU(n, Mem{Base: m.scratch, Disp: 32})
		for g := range 4 {
			m.w.Put(Mem{Base: m.scratch, Disp: 8 * g}, Mem{Base: m.scratch, Disp: 32 + 8*g})
		}
		JMP(LabelRef("next"))
	}
}

// packHigh and packLow bring the high or low words of the dwords of a and b together.
func packHigh(a, b VecVirtual) VecVirtual {
	t, u := YMM(), YMM()
	VPSRLD(Imm(16), a, t)
	VPSRLD(Imm(16), b, u)
	VPACKUSDW(u, t, t)
	VPERMQ(Imm(0xd8), t, t)
	return t
}

func packLow(a, b VecVirtual) VecVirtual {
	t, u := YMM(), YMM()
	VPAND(lowWord(), a, t)
	VPAND(lowWord(), b, u)
	VPACKUSDW(u, t, t)
	VPERMQ(Imm(0xd8), t, t)
	return t
}

// hybrid splits dwords y into quotient and count: y >> n and n. With top = 2 all 32 bits may be used, otherwise 24.
func hybrid(y VecVirtual, wide bool) (quotient, n VecVirtual) {
	n, quotient = YMM(), YMM()
	if wide { // the length of y >> 1 as a float's exponent; the bit below the leading one is cleared, lest rounding carries
		t := YMM()
		VPSRLD(Imm(1), y, n)
		VPSRLD(Imm(2), y, t)
		VPANDN(n, t, n)
		VCVTDQ2PS(n, n)
		VPSRLD(Imm(23), n, n)
		VPSUBUSW(exponent2(), n, n)
	} else {
		VCVTDQ2PS(y, n)
		VPSRLD(Imm(23), n, n)
		VPSUBUSW(exponent4(), n, n)
	}
	VPSRLVD(n, y, quotient)
	return quotient, n
}

// tokenOf returns 4n + quotient and turns y into its tail.
func tokenOf(y, quotient, n VecVirtual) VecVirtual {
	token := YMM()
	VPSLLD(Imm(2), n, token)
	VPADDD(quotient, token, token)
	VPSLLVD(n, quotient, quotient)
	VPXOR(quotient, y, y)
	return token
}

// splitWords is Split where 16 bits are above the plane: 16-bit lanes without a plane, or 32-bit lanes with one of 16 bits. Blocks of 16.
func splitWords(width int, leading bool) {
	name, what := bits.WordKernel(width, leading)
	name = "split" + name + "AVX2"
	emit.Begin(name, bits.SplitSignature, bits.SplitDoc(name, what, 16)...)
	ix, target, plane, tail := emit.Arg("ix"), emit.Arg("target"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	scratch := emit.Scratch(64 + 4*32)
	s := &slots{scratch, 64}
	w := bits.NewWriter(tail, p)
	m := &merger{w: w, scratch: scratch}
	seen := YMM()
	VPXOR(seen, seen, seen)

	var ref GPVirtual
	var q *residual
	var e *exponents
	var first, tailBits, tailMask Mem
	var zero, step VecVirtual
	if leading {
		first, tailBits = s.keep(wordsOf(p, bits.First)), s.keep(wordsOf(p, bits.TailBits))
		step, zero = count(p, bits.TailBits), YMM()
		t := YMM()
		VPCMPEQW(t, t, t)
		VPSLLW(step, t, t)
		VPXOR(allOnes(), t, t)
		tailMask = s.keep(t)
		VPXOR(zero, zero, zero)
	} else {
		ref, q, e = emit.Arg("ref"), newResidual(width, p, s), newExponents(p, s)
	}

	Label("block")
	var x0, x1, y, token, tails, counts VecVirtual
	var isZero VecVirtual
	x0 = load(Mem{Base: target})
	if width == 32 {
		x1 = load(Mem{Base: target, Disp: 32})
	}
	if leading {
		token, tails, counts = YMM(), YMM(), YMM()
		rotate := func(x VecVirtual) {
			t := YMM()
			if width == 32 {
				VPSRLD(Imm(31), x, t)
				VPADDD(x, x, x)
			} else {
				VPSRLW(Imm(15), x, t)
				VPADDW(x, x, x)
			}
			VPOR(t, x, x)
			VPOR(x, seen, seen)
		}
		rotate(x0)
		y, isZero = x0, YMM()
		if width == 32 {
			rotate(x1)
			y = packHigh(x0, x1)
			t := YMM()
			VPCMPEQD(zero, x0, isZero)
			VPCMPEQD(zero, x1, t)
			VPACKSSDW(t, isZero, isZero)
			VPERMQ(Imm(0xd8), isZero, isZero)
		} else {
			VPCMPEQW(zero, y, isZero)
		}
		VPSRLW(step, y, token)
		VPSUBW(first, token, token)
		VPANDN(token, isZero, token)
		VPAND(tailMask, y, tails)
		VPANDN(tailBits, isZero, counts)
	} else {
		var r VecVirtual
		if width == 32 {
			r0, r1 := load(Mem{Base: ref}), load(Mem{Base: ref, Disp: 32})
			q.forward(x0, r0)
			q.forward(x1, r1)
			VPOR(x0, seen, seen)
			VPOR(x1, seen, seen)
			r = packHigh(r0, r1)
			y = packHigh(x0, x1)
		} else {
			y, r = x0, load(Mem{Base: ref})
			q.forward(y, r)
			VPOR(y, seen, seen)
		}
		odd := YMM()
		tails = YMM()
		VPSRLD(Imm(16), y, odd)
		VPAND(lowWord(), y, tails)
		quotient, n0 := hybrid(tails, false)
		token = tokenOf(tails, quotient, n0)
		quotient, n1 := hybrid(odd, false)
		token1 := tokenOf(odd, quotient, n1)
		VPSLLD(Imm(16), token1, token1)
		VPOR(token1, token, token)
		e.context(r)
		VPSLLW(Imm(8), r, r)
		VPOR(r, token, token)
		m.append(tails, n0, odd, n1)
		counts = n0
	}
	VMOVDQU(token, Mem{Base: ix})
	TESTQ(tail, tail)
	JZ(LabelRef("advance"))

	if width == 32 {
		if leading { // values without a plane are left to generic code
			VPTEST(isZero, isZero)
			JNZ(LabelRef("exit"))
		}
		VMOVDQU(packLow(x0, x1), Mem{Base: plane})
		ADDQ(Imm(32), plane)
	}
	VPTEST(counts, counts)
	JZ(LabelRef("advance"))
	if leading {
		m.pairWords(tails, counts)
	}
	m.pairDwords(tails, counts)
	m.put(tails, counts, "")

	Label("advance")
	ADDQ(Imm(32), ix)
	ADDQ(Imm(uint64(2*width)), target)
	if !leading {
		ADDQ(Imm(uint64(2*width)), ref)
	}
	SUBQ(Imm(16), n)
	JNZ(LabelRef("block"))
	if width == 32 && leading {
		Label("exit")
	}
	finish(plane, tail, n, seen, w)
	m.long()
}

// finish stores what a Split kernel returns.
func finish(plane, tail, n GPVirtual, seen VecVirtual, w *bits.Writer) {
	p, t := emit.Arg("p"), GP64()
	XORL(t.As32(), t.As32())
	VPTEST(seen, seen)
	SETNE(t.As8())
	ORQ(t, bits.Field(p, bits.Seen))
	TESTQ(tail, tail)
	JZ(LabelRef("return"))
	w.Save(p)
	SUBQ(emit.Arg("plane"), plane)
	MOVQ(plane, bits.Field(p, bits.PlaneLen))
	Label("return")
	done := emit.Arg("n")
	SUBQ(n, done)
	Store(done, ReturnIndex(0))
	emit.End()
}

// splitDwords is Split with map 0 for 32-bit lanes and a plane of K = 0 or 8 bits. Blocks of 8.
func splitDwords(k int) {
	name := "split32K" + bits.Itoa(k) + "AVX2"
	emit.Begin(name, bits.SplitSignature, bits.SplitDoc(name, "32-bit lanes with map 0 and K = "+bits.Itoa(k), 8)...)
	ix, target, ref, plane, tail := emit.Arg("ix"), emit.Arg("target"), emit.Arg("ref"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	scratch := emit.Scratch(64 + 4*32)
	s := &slots{scratch, 64}
	w := bits.NewWriter(tail, p)
	m := &merger{w: w, scratch: scratch}
	seen := YMM()
	VPXOR(seen, seen, seen)
	q := newResidual(32, p, s)
	shift, mask, base := count(p, bits.Shift), s.keep(dwordsOf(p, bits.ExpMask)), s.keep(dwordsOf(p, bits.ExpBase))

	Label("block")
	x, r := load(Mem{Base: target}), load(Mem{Base: ref})
	q.forward(x, r)
	VPOR(x, seen, seen)
	y := YMM()
	if k > 0 {
		VPSRLD(Imm(uint64(k)), x, y)
	} else {
		VMOVDQA(x, y)
	}
	quotient, counts := hybrid(y, k == 0)
	token := tokenOf(y, quotient, counts)
	VPSRLD(shift, r, r)
	VPAND(mask, r, r)
	VPSUBUSW(base, r, r)
	VPMINUD(lastDword(), r, r)
	VPSLLD(Imm(8), r, r)
	VPOR(r, token, token)
	VPACKUSDW(token, token, token)
	VPERMQ(Imm(0x08), token, token)
	VMOVDQU(token.AsX(), Mem{Base: ix})
	TESTQ(tail, tail)
	JZ(LabelRef("advance"))

	if k == 0 {
		VPTEST(counts, counts)
		JZ(LabelRef("advance"))
	}
	m.pairDwords(y, counts)
	exit := ""
	if k == 0 {
		exit = "exit"
	}
	m.put(y, counts, exit)
	if k == 8 {
		t := XMM()
		VPSHUFB(firstBytes(), x, x)
		VEXTRACTI128(Imm(1), x, t)
		VMOVD(x.AsX(), Mem{Base: plane})
		VMOVD(t, Mem{Base: plane, Disp: 4})
		ADDQ(Imm(8), plane)
	}

	Label("advance")
	ADDQ(Imm(16), ix)
	ADDQ(Imm(32), target)
	ADDQ(Imm(32), ref)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("block"))
	if k == 0 {
		Label("exit")
	}
	finish(plane, tail, n, seen, w)
	m.long()
}

// Join works in blocks of joinBlock values and three phases, each a loop: masks of the tails, deposit of their bits, values. What one
// phase stores is long in the cache when the next one loads it.
const joinBlock = 128

// joinWords is Join where 16 bits are above the plane.
func joinWords(width int, leading bool) {
	name, what := bits.WordKernel(width, leading)
	name = "join" + name + "AVX2"
	emit.Begin(name, bits.JoinSignature, bits.JoinDoc(name, what, joinBlock)...)
	dst, ref, tokens, plane, tail := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("tokens"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	s := &slots{base: emit.Scratch(64)}
	pos := bits.Get(p, bits.Nbits)
	masks := bits.Scratch(p)
	const bases, deposits = 2 * joinBlock, 4 * joinBlock
	var first Mem
	var step, zero, tailMask VecVirtual
	var q *residual
	if leading {
		first, tailMask, zero = s.keep(wordsOf(p, bits.First)), YMM(), YMM()
		step = count(p, bits.TailBits)
		VPCMPEQW(tailMask, tailMask, tailMask)
		VPSLLW(step, tailMask, tailMask)
		VPXOR(allOnes(), tailMask, tailMask)
		VPXOR(zero, zero, zero)
	} else {
		q = newResidual(width, p, s)
	}

	Label("block")
	var zeros VecVirtual
	if leading && width == 32 {
		zeros = YMM()
		VPXOR(zeros, zeros, zeros)
	}
	anyTail := YMM()
	VPXOR(anyTail, anyTail, anyTail)
	for i := range joinBlock / 16 {
		t, base, mask := YMM(), YMM(), YMM()
		VPMOVZXBW(Mem{Base: tokens, Disp: 16 * i}, t)
		if leading {
			isZero := YMM()
			VPCMPEQW(zero, t, isZero)
			VPADDW(first, t, t)
			VPSLLW(step, t, t)
			VPANDN(t, isZero, base)
			VPANDN(tailMask, isZero, mask)
			if width == 32 {
				VPOR(isZero, zeros, zeros)
			}
		} else {
			c, high := YMM(), YMM()
			VPSRLW(Imm(2), t, c)
			VPSUBUSW(oneWord(), c, c)
			VPSLLW(Imm(2), c, base)
			VPSUBW(base, t, base)
			VPSLLW(Imm(8), c, high)
			VPOR(highByteX(), c, c)
			VPOR(lowByteX(), high, high)
			VMOVDQU(maskLow(), mask)
			VMOVDQU(maskHigh(), t)
			VPSHUFB(c, mask, mask)
			VPSHUFB(high, t, t)
			VPOR(t, mask, mask)
			VPADDW(oneWord(), mask, t)
			VPMULLW(t, base, base)
		}
		VMOVDQU(base, Mem{Base: masks, Disp: bases + 32*i})
		VMOVDQU(mask, Mem{Base: masks, Disp: 32 * i})
		VPOR(mask, anyTail, anyTail)
	}
	if zeros != nil {
		VPTEST(zeros, zeros)
		JNZ(LabelRef("exit"))
	}
	deposit(tail, pos, masks, deposits, joinBlock/4, false, anyTail)
	for i := range joinBlock / 16 {
		y := load(Mem{Base: masks, Disp: bases + 32*i})
		VPOR(Mem{Base: masks, Disp: deposits + 32*i}, y, y)
		if width == 16 {
			restore(q, y, ref, dst, 32*i, width)
			continue
		}
		low, a, b := load(Mem{Base: plane, Disp: 32 * i}), YMM(), YMM()
		VPUNPCKLWD(y, low, a)
		VPUNPCKHWD(y, low, b)
		VPERM2I128(Imm(0x20), b, a, y)
		VPERM2I128(Imm(0x31), b, a, a)
		restore(q, y, ref, dst, 64*i, width)
		restore(q, a, ref, dst, 64*i+32, width)
	}
	if width == 32 {
		ADDQ(U32(2*joinBlock), plane)
	}
	ADDQ(U32(joinBlock), tokens)
	ADDQ(U32(uint32(joinBlock*width/8)), dst)
	ADDQ(U32(uint32(joinBlock*width/8)), ref)
	SUBQ(U32(joinBlock), n)
	JNZ(LabelRef("block"))
	if zeros != nil {
		Label("exit")
	}
	finishJoin(pos, plane, n)
}

func finishJoin(pos, plane, n GPVirtual) {
	p := emit.Arg("p")
	MOVQ(pos, bits.Field(p, bits.Nbits))
	SUBQ(emit.Arg("plane"), plane)
	MOVQ(plane, bits.Field(p, bits.PlaneLen))
	done := emit.Arg("n")
	SUBQ(n, done)
	Store(done, ReturnIndex(0))
	emit.End()
}

// deposit is bits.Deposit as a loop over pieces of 8 groups. Where no value has a tail, as in mostly unchanged tensors, it only clears.
func deposit(tail, pos, masks GPVirtual, deposits, groups int, long bool, anyTail VecVirtual) {
	VPTEST(anyTail, anyTail)
	JNZ(LabelRef("tails"))
	for i := range groups / 4 {
		VMOVDQU(anyTail, Mem{Base: masks, Disp: deposits + 32*i})
	}
	JMP(LabelRef("values"))
	Label("tails")
	from, left := GP64(), GP64()
	MOVQ(masks, from)
	MOVL(U32(uint32(groups/8)), left.As32())
	Label("deposit")
	bits.Deposit(tail, pos, from, deposits, 8, long)
	ADDQ(Imm(64), from)
	DECQ(left)
	JNZ(LabelRef("deposit"))
	Label("values")
}

// restore turns z into values, with the reference unless there is none.
func restore(q *residual, z VecVirtual, ref, dst GPVirtual, disp, width int) {
	if q == nil { // rotate back
		t := YMM()
		if width == 32 {
			VPSLLD(Imm(31), z, t)
			VPSRLD(Imm(1), z, z)
		} else {
			VPSLLW(Imm(15), z, t)
			VPSRLW(Imm(1), z, z)
		}
		VPOR(t, z, z)
	} else {
		q.backward(z, load(Mem{Base: ref, Disp: disp}))
	}
	VMOVDQU(z, Mem{Base: dst, Disp: disp})
}

// joinDwords is Join with map 0 for 32-bit lanes and a plane of K = 0 or 8 bits.
func joinDwords(k int) {
	name := "join32K" + bits.Itoa(k) + "AVX2"
	emit.Begin(name, bits.JoinSignature, bits.JoinDoc(name, "32-bit lanes with map 0 and K = "+bits.Itoa(k), joinBlock)...)
	dst, ref, tokens, plane, tail := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("tokens"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	s := &slots{base: emit.Scratch(64)}
	pos := bits.Get(p, bits.Nbits)
	masks := bits.Scratch(p)
	const bases, deposits = 4 * joinBlock, 8 * joinBlock
	q := newResidual(32, p, s)

	Label("block")
	anyTail := YMM()
	VPXOR(anyTail, anyTail, anyTail)
	for i := range joinBlock / 8 {
		t, base, mask, c := YMM(), YMM(), YMM(), YMM()
		VPMOVZXBD(Mem{Base: tokens, Disp: 8 * i}, t)
		VPSRLD(Imm(2), t, c)
		VPSUBUSW(oneDword(), c, c)
		VPSLLD(Imm(2), c, base)
		VPSUBD(base, t, base)
		VPSLLVD(c, base, base)
		VPCMPEQD(mask, mask, mask)
		VPSLLVD(c, mask, mask)
		VPXOR(allOnes(), mask, mask)
		VMOVDQU(base, Mem{Base: masks, Disp: bases + 32*i})
		VMOVDQU(mask, Mem{Base: masks, Disp: 32 * i})
		VPOR(mask, anyTail, anyTail)
	}
	deposit(tail, pos, masks, deposits, joinBlock/2, k == 0, anyTail)
	for i := range joinBlock / 8 {
		z := load(Mem{Base: masks, Disp: bases + 32*i})
		VPOR(Mem{Base: masks, Disp: deposits + 32*i}, z, z)
		if k == 8 {
			low := YMM()
			VPMOVZXBD(Mem{Base: plane, Disp: 8 * i}, low)
			VPSLLD(Imm(8), z, z)
			VPOR(low, z, z)
		}
		restore(q, z, ref, dst, 32*i, 32)
	}
	if k == 8 {
		ADDQ(U32(joinBlock), plane)
	}
	ADDQ(U32(joinBlock), tokens)
	ADDQ(U32(4*joinBlock), dst)
	ADDQ(U32(4*joinBlock), ref)
	SUBQ(U32(joinBlock), n)
	JNZ(LabelRef("block"))
	finishJoin(pos, plane, n)
}

// direct computes with bytes, for which there is no arithmetic shift.
type direct struct {
	and, or, zero VecVirtual
}

func newDirect(p GPVirtual) *direct {
	d := &direct{YMM(), YMM(), YMM()}
	VPBROADCASTB(bits.Field(p, bits.And), d.and)
	VPBROADCASTB(bits.Field(p, bits.Or), d.or)
	VPXOR(d.zero, d.zero, d.zero)
	return d
}

func (d *direct) key(v, dst VecVirtual) {
	t := YMM()
	VPCMPGTB(v, d.zero, t)
	VPAND(d.and, t, t)
	VPOR(d.or, t, t)
	VPXOR(v, t, dst)
}

// splitDirect is Split with map 2. The contexts are the bytes of the reference, masked.
func splitDirect() {
	emit.Begin("splitDirect8AVX2", bits.SplitSignature, bits.SplitDoc("splitDirect8AVX2", "8-bit lanes with map 2", 32)...)
	ix, target, ref, n, p := emit.Arg("ix"), emit.Arg("target"), emit.Arg("ref"), emit.Arg("n"), emit.Arg("p")
	d, seen, mask := newDirect(p), YMM(), YMM()
	VPBROADCASTB(bits.Field(p, bits.ExpMask), mask)
	VPXOR(seen, seen, seen)
	Label("block")
	x, r, k := load(Mem{Base: target}), load(Mem{Base: ref}), YMM()
	d.key(x, x)
	d.key(r, k)
	VPSUBB(k, x, x)
	VPCMPGTB(x, d.zero, k)
	VPADDB(x, x, x)
	VPXOR(k, x, x)
	VPOR(x, seen, seen)
	VPAND(mask, r, r)
	VPERMQ(Imm(0xd8), x, x)
	VPERMQ(Imm(0xd8), r, r)
	VPUNPCKLBW(r, x, k)
	VPUNPCKHBW(r, x, x)
	VMOVDQU(k, Mem{Base: ix})
	VMOVDQU(x, Mem{Base: ix, Disp: 32})
	ADDQ(Imm(64), ix)
	ADDQ(Imm(32), target)
	ADDQ(Imm(32), ref)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))
	t := GP64()
	XORL(t.As32(), t.As32())
	VPTEST(seen, seen)
	SETNE(t.As8())
	ORQ(t, bits.Field(p, bits.Seen))
	Store(emit.Arg("n"), ReturnIndex(0))
	emit.End()
}

// joinDirect is Join with map 2.
func joinDirect() {
	emit.Begin("joinDirect8AVX2", bits.JoinSignature, bits.JoinDoc("joinDirect8AVX2", "8-bit lanes with map 2", 32)...)
	dst, ref, tokens, n := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("tokens"), emit.Arg("n")
	d := newDirect(emit.Arg("p"))
	one, low7 := load(bytes32("oneByte", func(int) uint8 { return 1 })), load(bytes32("low7", func(int) uint8 { return 0x7f }))
	Label("block")
	z, r, odd := load(Mem{Base: tokens}), load(Mem{Base: ref}), YMM()
	VPAND(one, z, odd)
	VPSUBB(odd, d.zero, odd)
	VPSRLW(Imm(1), z, z)
	VPAND(low7, z, z)
	VPXOR(odd, z, z)
	d.key(r, r)
	VPADDB(r, z, z)
	t := YMM()
	VPCMPGTB(z, d.zero, t)
	VPANDN(d.and, t, t)
	VPOR(d.or, t, t)
	VPXOR(t, z, z)
	VMOVDQU(z, Mem{Base: dst})
	ADDQ(Imm(32), dst)
	ADDQ(Imm(32), ref)
	ADDQ(Imm(32), tokens)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))
	Store(emit.Arg("n"), ReturnIndex(0))
	emit.End()
}

// tokenStats looks at tokens before Join: their largest, their tail bits and how many are not 0.
func tokenStats() {
	emit.Begin("tokenStatsAVX2", "func(tokens *uint8, n int, largest *[32]uint8) (tailBits, zeros uint64)",
		"tokenStatsAVX2 looks at n tokens, a multiple of 32: the largest one is the largest of largest, tailBits is the sum of max(token>>2, 1) - 1,",
		"zeros counts zeros.")
	tokens, n := emit.Arg("tokens"), emit.Arg("n")
	one, low6, zero := load(bytes32("oneByte", nil)), load(bytes32("low6", func(int) uint8 { return 0x3f })), YMM()
	largest, sum, zeros := YMM(), YMM(), YMM()
	for _, y := range []VecVirtual{zero, largest, sum, zeros} {
		VPXOR(y, y, y)
	}
	Label("block")
	s, t := load(Mem{Base: tokens}), YMM()
	VPMAXUB(s, largest, largest)
	VPSRLW(Imm(2), s, t)
	VPAND(low6, t, t)
	VPSUBUSB(one, t, t)
	VPSADBW(zero, t, t)
	VPADDQ(t, sum, sum)
	VPCMPEQB(zero, s, s)
	VPAND(one, s, s)
	VPSADBW(zero, s, s)
	VPADDQ(s, zeros, zeros)
	ADDQ(Imm(32), tokens)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))
	VMOVDQU(largest, Mem{Base: emit.Arg("largest")})
	for i, y := range []VecVirtual{sum, zeros} {
		x, r := XMM(), GP64()
		VEXTRACTI128(Imm(1), y, x)
		VPADDQ(y.AsX(), x, x)
		VPSRLDQ(Imm(8), x, y.AsX())
		VPADDQ(y.AsX(), x, x)
		VMOVQ(x, r)
		Store(r, ReturnIndex(i))
	}
	emit.End()
}
