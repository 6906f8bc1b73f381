// Command avx512 writes the AVX-512 kernels of package transform.
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
	clusters(16)
	clusters(32)
	splitWords(16, false)
	splitWords(32, false)
	splitWords(16, true)
	splitWords(32, true)
	splitDwords(0)
	splitDwords(8)
	joinWords(16, false)
	joinWords(32, false)
	joinWords(16, true)
	joinWords(32, true)
	joinDwords(0)
	joinDwords(8)
	Generate()
}

// Ternary logic functions of VPTERNLOGD(imm, c, b, a), a being the destination.
const (
	andOr = 0xea // a & b | c
	orAnd = 0xf8 // a | b & c
	or3   = 0xfe // a | b | c
	// orAndNot is a | b & ^c
	orAndNot = 0xf4
	// unkeyLogic is ^a & b | c
	unkeyLogic = 0xae
)

func wordsOf(r GPVirtual) VecVirtual {
	z := ZMM()
	VPBROADCASTW(r.As32(), z)
	return z
}

func dwordsOf(r GPVirtual) VecVirtual {
	z := ZMM()
	VPBROADCASTD(r.As32(), z)
	return z
}

func word(v uint16) VecVirtual {
	r := GP64()
	MOVL(U32(uint32(v)), r.As32())
	return wordsOf(r)
}

func qword(v uint32) VecVirtual {
	r, z := GP64(), ZMM()
	MOVL(U32(v), r.As32())
	VPBROADCASTQ(r, z)
	return z
}

var tables = map[string]Mem{}

// indexTable is a constant of 32 words.
func indexTable(name string, f func(i int) int) VecVirtual {
	m, ok := tables[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := range 32 {
			DATA(2*i, U16(uint16(f(i))))
		}
		tables[name] = m
	}
	z := ZMM()
	VMOVDQU16(m, z)
	return z
}

// Words 2i+1 and 2i of two registers; and the way back, words of a low and a high register side by side.
func highWords() VecVirtual { return indexTable("highWords512", func(i int) int { return 2*i + 1 }) }
func lowWords() VecVirtual  { return indexTable("lowWords512", func(i int) int { return 2 * i }) }
func firstPairs() VecVirtual {
	return indexTable("firstPairs512", func(i int) int { return i/2 + 32*(i%2) })
}
func secondPairs() VecVirtual {
	return indexTable("secondPairs512", func(i int) int { return 16 + i/2 + 32*(i%2) })
}

// exponents computes contexts from words.
type exponents struct {
	shift, mask, base, last VecVirtual
}

func newExponents(p GPVirtual) *exponents {
	return &exponents{emit.Count(bits.Get(p, bits.Shift)), wordsOf(bits.Get(p, bits.ExpMask)), wordsOf(bits.Get(p, bits.ExpBase)), word(31)}
}

func (e *exponents) context(r, dst VecVirtual) {
	VPSRLW(e.shift, r, dst)
	VPANDD(e.mask, dst, dst)
	VPSUBUSW(e.base, dst, dst)
	VPMINUW(e.last, dst, dst)
}

func clusters(width int) {
	name := "clusters" + bits.Itoa(width) + "AVX512"
	emit.Begin(name, "func(dst, ref *byte, n int, p *[211]uint64, table *[32]byte)",
		name+" is Clusters with context part 1 for n lane values of "+bits.Itoa(width)+" bits, a multiple of 32.")
	dst, ref, n := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("n")
	e := newExponents(emit.Arg("p"))
	table := YMM()
	VMOVDQU8(Mem{Base: emit.Arg("table")}, table)
	var high VecVirtual
	if width == 32 {
		high = highWords()
	}
	Label("block")
	r := ZMM()
	VMOVDQU16(Mem{Base: ref}, r)
	if width == 32 {
		VPERMT2W(Mem{Base: ref, Disp: 64}, high, r)
	}
	e.context(r, r)
	VPMOVWB(r, r.AsY())
	VPERMB(table, r.AsY(), r.AsY())
	VMOVDQU8(r.AsY(), Mem{Base: dst})
	ADDQ(Imm(uint64(4*width)), ref)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))
	emit.End()
}

// residual computes z from x and r, lanes of width bits.
type residual struct {
	width   int
	and, or VecVirtual
}

func newResidual(width int, p GPVirtual) *residual {
	of := wordsOf
	if width == 32 {
		of = dwordsOf
	}
	return &residual{width, of(bits.Get(p, bits.And)), of(bits.Get(p, bits.Or))}
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
	t := ZMM()
	q.sign(v, t)
	VPTERNLOGD(U8(andOr), q.or, q.and, t)
	VPXORD(v, t, dst)
}

// forward turns x into z.
func (q *residual) forward(x, r VecVirtual) {
	k := ZMM()
	q.key(x, x)
	q.key(r, k)
	q.sub(k, x, x)
	q.sign(x, k)
	q.add(x, x, x)
	VPXORD(k, x, x)
}

// backward turns z into x, with one = 1 in every lane.
func (q *residual) backward(z, r, one VecVirtual) {
	odd, t := ZMM(), ZMM()
	VPANDD(one, z, odd)
	VPXORD(t, t, t)
	q.sub(odd, t, odd)
	if q.width == 16 {
		VPSRLW(Imm(1), z, z)
	} else {
		VPSRLD(Imm(1), z, z)
	}
	VPXORD(odd, z, z)
	q.key(r, t)
	q.add(t, z, z)
	q.sign(z, t)
	VPTERNLOGD(U8(unkeyLogic), q.or, q.and, t)
	VPXORD(t, z, z)
}

// merger brings the tails of a register together into groups, which a Writer appends.
type merger struct {
	w          *bits.Writer
	scratch    GPVirtual
	limit, low VecVirtual
	even       OpmaskVirtual // mask of even qwords
	lowQword   VecVirtual
	long       func() // code for groups that do not pair, to be placed behind the loop
}

func newMerger(w *bits.Writer, scratch GPVirtual) *merger {
	m := &merger{w: w, scratch: scratch, limit: qword(56), low: emit.Broadcast32Z(0xffff), lowQword: ZMM(), even: K()}
	VPXORD(m.lowQword, m.lowQword, m.lowQword)
	VPTERNLOGD(U8(0xff), m.lowQword, m.lowQword, m.lowQword)
	VPSRLQ(Imm(32), m.lowQword, m.lowQword)
	r := GP32()
	MOVL(U32(0x55), r)
	KMOVW(r, m.even)
	return m
}

// pairWords joins the tails v of n bits of two words in a dword.
func (m *merger) pairWords(v, n VecVirtual) {
	hi, hn := ZMM(), ZMM()
	VPSRLD(Imm(16), v, hi)
	VPSRLD(Imm(16), n, hn)
	VPANDD(m.low, v, v)
	VPANDD(m.low, n, n)
	VPSLLVD(n, hi, hi)
	VPORD(hi, v, v)
	VPADDD(hn, n, n)
}

func (m *merger) pairDwords(v, n VecVirtual) {
	hi, hn := ZMM(), ZMM()
	VPSRLQ(Imm(32), v, hi)
	VPSRLQ(Imm(32), n, hn)
	VPANDD(m.lowQword, v, v)
	VPANDD(m.lowQword, n, n)
	VPSLLVQ(n, hi, hi)
	VPORD(hi, v, v)
	VPADDQ(hn, n, n)
}

// put appends 8 groups of qwords, two at a time where all pairs have at most 56 bits. If a single group can have more and has, it goes to
// exit, before anything was written.
func (m *merger) put(v, n VecVirtual, exit string) {
	pair, pn, k, r := ZMM(), ZMM(), K(), GP32()
	VPUNPCKHQDQ(v, v, pair)
	VPUNPCKHQDQ(n, n, pn)
	VPSLLVQ(n, pair, pair)
	VPORD(v, pair, pair)
	VPADDQ(n, pn, pn)
	VPCMPUQ(Imm(6), m.limit, pn, m.even, k)
	KMOVW(k, r)
	VMOVDQA32(pair, Mem{Base: m.scratch})
	VMOVDQA32(pn, Mem{Base: m.scratch, Disp: 64})
	TESTL(r, r)
	JNZ(LabelRef("long"))
	for g := range 4 {
		m.w.Put(Mem{Base: m.scratch, Disp: 16 * g}, Mem{Base: m.scratch, Disp: 64 + 16*g})
	}
	Label("next")
	m.long = func() {
		Label("long")
		if exit != "" {
			VPCMPUQ(Imm(6), m.limit, n, k)
			KMOVW(k, r)
			TESTL(r, r)
			JNZ(LabelRef(exit))
		}
		VMOVDQA32(v, Mem{Base: m.scratch})
		VMOVDQA32(n, Mem{Base: m.scratch, Disp: 64})
		for g := range 8 {
			m.w.Put(Mem{Base: m.scratch, Disp: 8 * g}, Mem{Base: m.scratch, Disp: 64 + 8*g})
		}
		JMP(LabelRef("next"))
	}
}

// words32 loads 32 dwords and returns them with their high words.
func words32(base GPVirtual, high VecVirtual) (lo, hi, words VecVirtual) {
	lo, hi, words = ZMM(), ZMM(), ZMM()
	VMOVDQU32(Mem{Base: base}, lo)
	VMOVDQU32(Mem{Base: base, Disp: 64}, hi)
	VMOVDQA32(lo, words)
	VPERMT2W(hi, high, words)
	return lo, hi, words
}

// splitWords is Split where 16 bits are above the plane: 16-bit lanes without a plane, or 32-bit lanes with one of 16 bits. Blocks of 32.
func splitWords(width int, leading bool) {
	name, what := bits.WordKernel(width, leading)
	name = "split" + name + "AVX512"
	emit.Begin(name, bits.SplitSignature, bits.SplitDoc(name, what, 32)...)
	ix, target, plane, tail := emit.Arg("ix"), emit.Arg("target"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	w := bits.NewWriter(tail, p)
	scratch := emit.Scratch(128)
	m := newMerger(w, scratch)
	seen := ZMM()
	VPXORD(seen, seen, seen)

	var high, low VecVirtual
	if width == 32 {
		high, low = highWords(), lowWords()
	}
	var ref GPVirtual
	var q *residual
	var e *exponents
	var c29, first, tailBits, tailMask, zero, step VecVirtual
	if leading {
		first, tailBits, tailMask, zero = wordsOf(bits.Get(p, bits.First)), wordsOf(bits.Get(p, bits.TailBits)), ZMM(), ZMM()
		one := GP64()
		MOVL(U32(1), one.As32())
		SHLXL(bits.Get(p, bits.TailBits).As32(), one.As32(), one.As32())
		DECL(one.As32())
		VPBROADCASTW(one.As32(), tailMask)
		step = emit.Count(bits.Get(p, bits.TailBits))
		VPXORD(zero, zero, zero)
	} else {
		ref, q, e, c29 = emit.Arg("ref"), newResidual(width, p), newExponents(p), word(29)
	}

	Label("block")
	var x0, x1, y VecVirtual
	some, some0, some1 := K(), K(), K()
	token, tails, count := ZMM(), ZMM(), ZMM()
	if leading {
		rotate := func(x VecVirtual) {
			if width == 32 {
				VPROLD(Imm(1), x, x)
			} else {
				t := ZMM()
				VPSRLW(Imm(15), x, t)
				VPADDW(x, x, x)
				VPORD(t, x, x)
			}
		}
		x0 = ZMM()
		VMOVDQU32(Mem{Base: target}, x0)
		rotate(x0)
		VPORD(x0, seen, seen)
		y = x0
		if width == 32 {
			x1 = ZMM()
			VMOVDQU32(Mem{Base: target, Disp: 64}, x1)
			rotate(x1)
			VPORD(x1, seen, seen)
			y = ZMM()
			VMOVDQA32(x0, y)
			VPERMT2W(x1, high, y)
			VPTESTMD(x0, x0, some0)
			VPTESTMD(x1, x1, some1)
			KUNPCKWD(some0, some1, some)
		} else {
			VPTESTMW(y, y, some)
		}
		t := ZMM()
		VPSRLW(step, y, t)
		VPSUBW_Z(first, t, some, token)
		VPANDD(tailMask, y, tails)
		VMOVDQU16_Z(tailBits, some, count)
	} else {
		var r VecVirtual
		if width == 32 {
			var r0, r1 VecVirtual
			x0, x1 = ZMM(), ZMM()
			VMOVDQU32(Mem{Base: target}, x0)
			VMOVDQU32(Mem{Base: target, Disp: 64}, x1)
			r0, r1, r = words32(ref, high)
			q.forward(x0, r0)
			q.forward(x1, r1)
			VPTERNLOGD(U8(or3), x1, x0, seen)
			y = ZMM()
			VMOVDQA32(x0, y)
			VPERMT2W(x1, high, y)
		} else {
			y, r = ZMM(), ZMM()
			VMOVDQU16(Mem{Base: target}, y)
			VMOVDQU16(Mem{Base: ref}, r)
			q.forward(y, r)
			VPORD(y, seen, seen)
		}
		// The length of a word is 32 minus the leading zeros of the dword.
		even, odd := ZMM(), ZMM()
		VPANDD(m.low, y, even)
		VPSRLD(Imm(16), y, odd)
		VPLZCNTD(even, even)
		VPLZCNTD(odd, odd)
		VPSLLD(Imm(16), odd, odd)
		VPORD(odd, even, even)
		VPSUBUSW(even, c29, count)
		quotient := ZMM()
		VPSRLVW(count, y, quotient)
		VPSLLW(Imm(2), count, token)
		VPADDW(quotient, token, token)
		VPSLLVW(count, quotient, tails)
		VPXORD(y, tails, tails)
		e.context(r, r)
		VPSLLW(Imm(8), r, r)
		VPORD(r, token, token)
	}
	VMOVDQU16(token, Mem{Base: ix})
	TESTQ(tail, tail)
	JZ(LabelRef("advance"))

	if width == 32 {
		if leading {
			for i, x := range []VecVirtual{x0, x1} {
				k, t, c := []OpmaskVirtual{some0, some1}[i], ZMM(), GP32()
				VPCOMPRESSD_Z(x, k, t)
				VPMOVDW(t, t.AsY())
				VMOVDQU16(t.AsY(), Mem{Base: plane})
				KMOVW(k, c)
				POPCNTL(c, c)
				LEAQ(Mem{Base: plane, Index: c.As64(), Scale: 2}, plane)
			}
		} else {
			VPERMT2W(x1, low, x0)
			VMOVDQU16(x0, Mem{Base: plane})
			ADDQ(Imm(64), plane)
		}
	}
	skipWithoutTails(count)
	m.pairWords(tails, count)
	m.pairDwords(tails, count)
	m.put(tails, count, "")

	Label("advance")
	ADDQ(Imm(64), ix)
	ADDQ(Imm(uint64(4*width)), target)
	if !leading {
		ADDQ(Imm(uint64(4*width)), ref)
	}
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))

	finish(plane, tail, n, seen, w)
	m.long()
}

// skipWithoutTails goes on where no value of the block has a tail, as in mostly unchanged tensors.
func skipWithoutTails(count VecVirtual) {
	some := K()
	VPTESTMD(count, count, some)
	KORTESTW(some, some)
	JZ(LabelRef("advance"))
}

// finish stores what a Split kernel returns.
func finish(plane, tail, n GPVirtual, seen VecVirtual, w *bits.Writer) {
	p := emit.Arg("p")
	some, t := K(), GP64()
	VPTESTMD(seen, seen, some)
	KMOVW(some, t.As32())
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

// splitDwords is Split with map 0 for 32-bit lanes and a plane of K = 0 or 8 bits. Blocks of 16.
func splitDwords(k int) {
	name := "split32K" + bits.Itoa(k) + "AVX512"
	emit.Begin(name, bits.SplitSignature, bits.SplitDoc(name, "32-bit lanes with map 0 and K = "+bits.Itoa(k), 16)...)
	ix, target, ref, plane, tail := emit.Arg("ix"), emit.Arg("target"), emit.Arg("ref"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	w := bits.NewWriter(tail, p)
	m := newMerger(w, emit.Scratch(128))
	seen := ZMM()
	VPXORD(seen, seen, seen)
	q, c29, last := newResidual(32, p), emit.Broadcast32Z(29), emit.Broadcast32Z(31)
	shift, mask, base := emit.Count(bits.Get(p, bits.Shift)), dwordsOf(bits.Get(p, bits.ExpMask)), dwordsOf(bits.Get(p, bits.ExpBase))

	Label("block")
	x, r := ZMM(), ZMM()
	VMOVDQU32(Mem{Base: target}, x)
	VMOVDQU32(Mem{Base: ref}, r)
	q.forward(x, r)
	VPORD(x, seen, seen)
	y := x
	if k > 0 {
		y = ZMM()
		VPSRLD(Imm(uint64(k)), x, y)
	}
	count, token, quotient, tails := ZMM(), ZMM(), ZMM(), ZMM()
	VPLZCNTD(y, count)
	VPSUBUSW(count, c29, count)
	VPSRLVD(count, y, quotient)
	VPSLLD(Imm(2), count, token)
	VPADDD(quotient, token, token)
	VPSLLVD(count, quotient, tails)
	VPXORD(y, tails, tails)
	VPSRLD(shift, r, r)
	VPANDD(mask, r, r)
	VPSUBUSW(base, r, r)
	VPMINUD(last, r, r)
	VPSLLD(Imm(8), r, r)
	VPORD(r, token, token)
	VPMOVDW(token, token.AsY())
	VMOVDQU16(token.AsY(), Mem{Base: ix})
	TESTQ(tail, tail)
	JZ(LabelRef("advance"))

	if k == 0 {
		skipWithoutTails(count)
	}
	m.pairDwords(tails, count)
	exit := ""
	if k == 0 {
		exit = "exit"
	}
	m.put(tails, count, exit)
	if k == 8 {
		low := XMM()
		VPMOVDB(x, low)
		VMOVDQU8(low, Mem{Base: plane})
		ADDQ(Imm(16), plane)
	}

	Label("advance")
	ADDQ(Imm(32), ix)
	ADDQ(Imm(64), target)
	ADDQ(Imm(64), ref)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("block"))
	Label("exit")
	finish(plane, tail, n, seen, w)
	m.long()
}

// takeTails reads the tails of 32 words: count bits each (at most 13, so that four words have at most 52) from bit position pos of tail on,
// which it advances. The words of the result have the tail in their low bits and bits that do not matter above.
type takeTails struct {
	zero, seven, spread, steps, second VecVirtual
}

func newTakeTails() *takeTails {
	t := &takeTails{zero: ZMM(), seven: qword(7), second: word(0x0800)}
	VPXORD(t.zero, t.zero, t.zero)
	// Byte 0 of a qword in all its bytes, plus 0 .. 7.
	t.spread = indexTable("spread512", func(i int) int { return 0x0101 * (i % 8 / 4 * 8) })
	t.steps = indexTable("steps512", func(i int) int { return 0x0100 + 0x0202*(i%4) })
	return t
}

func (t *takeTails) read(tail, pos GPVirtual, count VecVirtual) VecVirtual {
	// Where the tail of a word begins in its qword, and that of a qword in the block.
	offset, total, start, x := ZMM(), ZMM(), ZMM(), ZMM()
	VPSLLQ(Imm(16), count, x)
	VPADDW(count, x, offset)
	VPSLLQ(Imm(32), offset, x)
	VPADDW(x, offset, offset)
	VPSRLQ(Imm(48), offset, total)
	VPSUBW(count, offset, offset)
	VALIGNQ(Imm(7), t.zero, total, start)
	VPADDQ(total, start, total)
	VALIGNQ(Imm(6), t.zero, total, x)
	VPADDQ(x, total, total)
	VALIGNQ(Imm(4), t.zero, total, x)
	VPADDQ(x, total, total) // with the qword itself
	VALIGNQ(Imm(7), t.zero, total, start)
	// Eight bytes a qword from its first byte on: all come from one load.
	at, bit := GP64(), GP64()
	MOVQ(pos, at)
	SHRQ(Imm(3), at)
	MOVL(pos.As32(), bit.As32())
	ANDL(Imm(7), bit.As32())
	VPBROADCASTQ(bit, x)
	VPADDQ(x, start, start)
	VPSRLQ(Imm(3), start, x)
	VPSHUFB(t.spread, x, x)
	VPADDB(t.steps, x, x)
	window := ZMM()
	VMOVDQU64(Mem{Base: tail, Index: at, Scale: 1}, window)
	VPERMB(window, x, window)
	VPANDD(t.seven, start, start)
	VPSRLVQ(start, window, window)
	// 16 bits a word from its offset on.
	VPSLLW(Imm(8), offset, x)
	VPORD(x, offset, offset)
	VPADDW(t.second, offset, offset)
	VPMULTISHIFTQB(window, offset, window)
	VALIGNQ(Imm(7), total, total, total)
	VMOVQ(total.AsX(), at)
	ADDQ(at, pos)
	return window
}

// joinWords is Join where 16 bits are above the plane.
func joinWords(width int, leading bool) {
	name, what := bits.WordKernel(width, leading)
	name = "join" + name + "AVX512"
	emit.Begin(name, bits.JoinSignature, bits.JoinDoc(name, what, 32)...)
	dst, ref, tokens, plane, tail := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("tokens"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	pos := bits.Get(p, bits.Nbits)
	t := newTakeTails()
	var one, oneWord, ones, first, step, tailMask, tailBits, firstPair, secondPair VecVirtual
	var q *residual
	if leading {
		first, tailBits, tailMask = wordsOf(bits.Get(p, bits.First)), wordsOf(bits.Get(p, bits.TailBits)), ZMM()
		r := GP64()
		MOVL(U32(1), r.As32())
		SHLXL(bits.Get(p, bits.TailBits).As32(), r.As32(), r.As32())
		DECL(r.As32())
		VPBROADCASTW(r.As32(), tailMask)
		step = emit.Count(bits.Get(p, bits.TailBits))
	} else {
		q, oneWord, ones = newResidual(width, p), word(1), ZMM()
		VPTERNLOGD(U8(0xff), ones, ones, ones)
		one = oneWord
	}
	if width == 32 {
		firstPair, secondPair, one = firstPairs(), secondPairs(), emit.Broadcast32Z(1)
	}

	Label("block")
	s, y, some := ZMM(), ZMM(), K()
	VPMOVZXBW(Mem{Base: tokens}, s)
	if leading {
		count := ZMM()
		VPTESTMW(s, s, some)
		VMOVDQU16_Z(tailBits, some, count)
		tails := t.read(tail, pos, count)
		VPADDW(first, s, s)
		VPSLLW(step, s, s)
		VPTERNLOGD(U8(orAnd), tailMask, tails, s)
		VMOVDQU16_Z(s, some, y)
	} else {
		count, base, mask := ZMM(), ZMM(), ZMM()
		VPSRLW(Imm(2), s, count)
		VPSUBUSW(oneWord, count, count)
		VPSLLW(Imm(2), count, base)
		VPSUBW(base, s, base)
		VPSLLVW(count, base, y)
		VPSLLVW(count, ones, mask)
		VPTESTMW(count, count, some)
		KORTESTD(some, some)
		JZ(LabelRef("values")) // no tails, as in mostly unchanged tensors
		tails := t.read(tail, pos, count)
		VPTERNLOGD(U8(orAndNot), mask, tails, y)
		Label("values")
	}
	switch {
	case width == 16:
		restore(q, y, ref, dst, 0, one, width)
	case leading: // words of the plane for tokens that are not 0
		for h := range 2 {
			k, c, z, u := K(), GP32(), ZMM(), ZMM()
			KMOVD(some, c)
			if h == 0 {
				VPMOVZXWD(y.AsY(), u)
				MOVWLZX(c.As16(), c)
			} else {
				VEXTRACTI64X4(Imm(1), y, u.AsY())
				VPMOVZXWD(u.AsY(), u)
				SHRL(Imm(16), c)
			}
			KMOVW(c, k)
			VPMOVZXWD(Mem{Base: plane}, z)
			VPEXPANDD_Z(z, k, z)
			POPCNTL(c, c)
			LEAQ(Mem{Base: plane, Index: c.As64(), Scale: 2}, plane)
			VPSLLD(Imm(16), u, u)
			VPORD(u, z, z)
			restore(q, z, ref, dst, 64*h, one, width)
		}
	default:
		low, second := ZMM(), ZMM()
		VMOVDQU16(Mem{Base: plane}, low)
		VMOVDQA32(low, second)
		VPERMT2W(y, firstPair, low)
		VPERMT2W(y, secondPair, second)
		restore(q, low, ref, dst, 0, one, width)
		restore(q, second, ref, dst, 64, one, width)
		ADDQ(Imm(64), plane)
	}
	ADDQ(Imm(32), tokens)
	ADDQ(Imm(uint64(4*width)), dst)
	ADDQ(Imm(uint64(4*width)), ref)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("block"))
	finishJoin(pos, plane)
}

func finishJoin(pos, plane GPVirtual) {
	p := emit.Arg("p")
	MOVQ(pos, bits.Field(p, bits.Nbits))
	SUBQ(emit.Arg("plane"), plane)
	MOVQ(plane, bits.Field(p, bits.PlaneLen))
	Store(emit.Arg("n"), ReturnIndex(0))
	emit.End()
}

// deposit is bits.Deposit as a loop over pieces of 8 groups. Where no value has a tail, as in mostly unchanged tensors, it only clears.
func deposit(tail, pos, masks GPVirtual, deposits, groups int, long bool, anyTail VecVirtual) {
	some := K()
	VPTESTMD(anyTail, anyTail, some)
	KORTESTW(some, some)
	JNZ(LabelRef("tails"))
	for i := range groups / 8 {
		VMOVDQA32(anyTail, Mem{Base: masks, Disp: deposits + 64*i})
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
func restore(q *residual, z VecVirtual, ref, dst GPVirtual, disp int, one VecVirtual, width int) {
	if q == nil { // rotate back
		if width == 32 {
			VPRORD(Imm(1), z, z)
		} else {
			t := ZMM()
			VPSLLW(Imm(15), z, t)
			VPSRLW(Imm(1), z, z)
			VPORD(t, z, z)
		}
	} else {
		r := ZMM()
		VMOVDQU32(Mem{Base: ref, Disp: disp}, r)
		q.backward(z, r, one)
	}
	VMOVDQU32(z, Mem{Base: dst, Disp: disp})
}

// joinBlock is the number of values that joinDwords carries through its three phases, each a loop: masks of the tails, deposit of their
// bits, values. What one phase stores is long in the cache when the next one loads it.
const joinBlock = 128

// joinDwords is Join with map 0 for 32-bit lanes and a plane of K = 0 or 8 bits.
func joinDwords(k int) {
	name := "join32K" + bits.Itoa(k) + "AVX512"
	emit.Begin(name, bits.JoinSignature, bits.JoinDoc(name, "32-bit lanes with map 0 and K = "+bits.Itoa(k), joinBlock)...)
	dst, ref, tokens, plane, tail := emit.Arg("dst"), emit.Arg("ref"), emit.Arg("tokens"), emit.Arg("plane"), emit.Arg("tail")
	n, p := emit.Arg("n"), emit.Arg("p")
	pos := bits.Get(p, bits.Nbits)
	masks := bits.Scratch(p)
	const bases, deposits = 4 * joinBlock, 8 * joinBlock
	ones := ZMM()
	VPTERNLOGD(U8(0xff), ones, ones, ones)
	one, q := emit.Broadcast32Z(1), newResidual(32, p)

	Label("block")
	anyTail := ZMM()
	VPXORD(anyTail, anyTail, anyTail)
	for i := range joinBlock / 16 {
		s, base, mask, count := ZMM(), ZMM(), ZMM(), ZMM()
		VPMOVZXBD(Mem{Base: tokens, Disp: 16 * i}, s)
		VPSRLD(Imm(2), s, count)
		VPSUBUSW(one, count, count)
		VPSLLD(Imm(2), count, base)
		VPSUBD(base, s, base)
		VPSLLVD(count, base, base)
		VPSLLVD(count, ones, mask)
		VPXORD(ones, mask, mask)
		VMOVDQA32(base, Mem{Base: masks, Disp: bases + 64*i})
		VMOVDQA32(mask, Mem{Base: masks, Disp: 64 * i})
		VPORD(mask, anyTail, anyTail)
	}
	deposit(tail, pos, masks, deposits, joinBlock/2, k == 0, anyTail)
	for i := range joinBlock / 16 {
		z := ZMM()
		VMOVDQA32(Mem{Base: masks, Disp: bases + 64*i}, z)
		VPORD(Mem{Base: masks, Disp: deposits + 64*i}, z, z)
		if k == 8 {
			low := ZMM()
			VPMOVZXBD(Mem{Base: plane, Disp: 16 * i}, low)
			VPSLLD(Imm(8), z, z)
			VPORD(low, z, z)
		}
		restore(q, z, ref, dst, 64*i, one, 32)
	}
	if k == 8 {
		ADDQ(U32(joinBlock), plane)
	}
	ADDQ(U32(joinBlock), tokens)
	ADDQ(U32(4*joinBlock), dst)
	ADDQ(U32(4*joinBlock), ref)
	SUBQ(U32(joinBlock), n)
	JNZ(LabelRef("block"))
	finishJoin(pos, plane)
}
