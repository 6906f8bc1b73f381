// Command avx2 writes the AVX2 and BMI2 kernels of package rans.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/emit"
)

func main() {
	ConstraintExpr("!purego")
	for _, lanes := range []int{64, 16} {
		decode(lanes)
		encode(lanes, false)
		encode(lanes, true)
	}
	Generate()
}

// constant puts y into the scratch memory at offset, to be used as an operand: there are not enough registers.
func constant(scratch GPVirtual, offset int, v GPVirtual) Mem {
	x, y := XMM(), YMM()
	VMOVD(v.As32(), x)
	VPBROADCASTD(x, y)
	m := Mem{Base: scratch, Disp: offset}
	VMOVDQA(y, m)
	return m
}

func imm(v uint32) GPVirtual {
	r := GP64()
	MOVL(U32(v), r.As32())
	return r
}

// decode keeps 8 lanes in a ymm register. A round decodes one symbol of every lane.
func decode(lanes int) {
	name := fmt.Sprintf("decode%dAVX2", lanes)
	emit.Begin(name,
		"func(entries *uint32, tokens, clusters, words *byte, states *uint32, rounds int, tableLog, clusterMask uint64, expand *[256][32]byte) (nbytes int)",
		fmt.Sprintf("%s decodes rounds (at least one) of %d symbols, reads at most %d bytes of words a round and returns how many were used.",
			name, lanes, 2*lanes))
	n := lanes / 8
	tl := emit.Arg("tableLog")
	scratch := emit.Scratch(32*n + 3*32)
	tableLog := emit.Count(tl)
	slots := GP64()
	MOVQ(U32(1), slots)
	SHLXQ(tl, slots, slots)
	DECQ(slots)
	slotMask := constant(scratch, 32*n, slots)
	clusterMask := constant(scratch, 32*n+32, emit.Arg("clusterMask"))
	biasMask := constant(scratch, 32*n+64, imm(0xfff))
	low := emit.Broadcast32Y(1 << 15)
	lowByte := YMM() // byte 0 of every dword to the front of its half
	VMOVDQU(tokenShuffle(), lowByte)

	entries, tokens, clusters := emit.Arg("entries"), emit.Arg("tokens"), emit.Arg("clusters")
	words, rounds, expand := emit.Arg("words"), emit.Arg("rounds"), emit.Arg("expand")
	states := emit.Arg("states")
	x := make([]VecVirtual, n)
	for v := range x {
		x[v] = YMM()
		VMOVDQU(Mem{Base: states, Disp: 32 * v}, x[v])
	}

	Label("round")
	for v := range x { // where the entries are
		idx, slot := YMM(), YMM()
		VPMOVZXBD(Mem{Base: clusters, Disp: 8 * v}, idx)
		VPAND(clusterMask, idx, idx)
		VPSLLD(tableLog, idx, idx)
		VPAND(slotMask, x[v], slot)
		VPOR(slot, idx, idx)
		VMOVDQA(idx, Mem{Base: scratch, Disp: 32 * v})
	}
	for v := range x {
		e := gather4(entries, Mem{Base: scratch, Disp: 32 * v})
		t, u := YMM(), XMM()
		VPSHUFB(lowByte, e, t)
		VEXTRACTI128(Imm(1), t, u)
		VMOVD(t.AsX(), Mem{Base: tokens, Disp: 8 * v})
		VMOVD(u, Mem{Base: tokens, Disp: 8*v + 4})
		VPSRLD(tableLog, x[v], x[v])
		VPSRLD(Imm(20), e, t)
		VPMULLD(t, x[v], x[v])
		VPSRLD(Imm(8), e, e)
		VPAND(biasMask, e, e)
		VPADDD(e, x[v], x[v])
		// Lanes below L are shifted by 16 and take one word each, in order; the others get a zero from the shuffle.
		need, mask, shuffle := YMM(), GP64(), GP64()
		VPCMPGTD(x[v], low, need)
		VMOVMSKPS(need, mask.As32())
		VPSRLD(Imm(31), need, need)
		VPSLLD(Imm(4), need, need)
		VPSLLVD(need, x[v], x[v])
		VBROADCASTI128(Mem{Base: words}, t)
		MOVL(mask.As32(), shuffle.As32())
		SHLQ(Imm(5), shuffle)
		VPSHUFB(Mem{Base: expand, Index: shuffle, Scale: 1}, t, t)
		VPOR(t, x[v], x[v])
		POPCNTL(mask.As32(), mask.As32())
		LEAQ(Mem{Base: words, Index: mask, Scale: 2}, words)
	}
	ADDQ(Imm(uint64(lanes)), clusters)
	ADDQ(Imm(uint64(lanes)), tokens)
	DECQ(rounds)
	JNZ(LabelRef("round"))

	states = emit.Arg("states")
	for v := range x {
		VMOVDQU(x[v], Mem{Base: states, Disp: 32 * v})
	}
	SUBQ(emit.Arg("words"), words)
	Store(words, ReturnIndex(0))
	emit.End()
}

var tokenShuffleData *Mem

func tokenShuffle() Mem {
	if tokenShuffleData == nil {
		m := GLOBL("tokenShuffle", RODATA|NOPTR)
		for half := range 2 {
			DATA(16*half, U32(0x0c080400))
			DATA(16*half+4, U32(0x80808080))
			DATA(16*half+8, U64(0x8080808080808080))
		}
		tokenShuffleData = &m
	}
	return *tokenShuffleData
}

// gather4 loads the dwords table[idx[i]] for 8 dwords idx in memory.
func gather4(table GPVirtual, idx Mem) VecVirtual {
	var quad [2]VecVirtual
	for q := range quad {
		quad[q] = XMM()
		for h := range 2 {
			lo, hi := emit.Pair(idx.Offset(16*q + 8*h))
			if h == 0 {
				VMOVD(Mem{Base: table, Index: lo, Scale: 4}, quad[q])
			} else {
				VPINSRD(Imm(2), Mem{Base: table, Index: lo, Scale: 4}, quad[q], quad[q])
			}
			VPINSRD(Imm(uint64(2*h+1)), Mem{Base: table, Index: hi, Scale: 4}, quad[q], quad[q])
		}
	}
	e := YMM()
	VINSERTI128(Imm(1), quad[1], quad[0].AsY(), e)
	return e
}

// gather8 loads the qwords table[idx[i]] for 8 dwords idx in memory and returns their low and their high dwords.
func gather8(table GPVirtual, idx Mem) (low, high VecVirtual) {
	var a, b [2]VecVirtual
	for q := range 2 {
		for h, x := range []*VecVirtual{&a[q], &b[q]} {
			*x = XMM()
			lo, hi := emit.Pair(idx.Offset(16*q + 8*h))
			VMOVQ(Mem{Base: table, Index: lo, Scale: 8}, *x)
			VMOVHPS(Mem{Base: table, Index: hi, Scale: 8}, *x, *x)
		}
	}
	first, second := YMM(), YMM()
	VINSERTI128(Imm(1), a[1], a[0].AsY(), first)
	VINSERTI128(Imm(1), b[1], b[0].AsY(), second)
	low, high = YMM(), YMM()
	VSHUFPS(U8(0x88), second, first, low)
	VSHUFPS(U8(0xdd), second, first, high)
	return low, high
}

// encode is the way back, from the last round to the first. The states stay in memory. The symbols are
// context<<8 | token, where offsets has the first entry of every context, or entry numbers already.
func encode(lanes int, mapped bool) {
	name := fmt.Sprintf("encode%dAVX2", lanes)
	what := "offsets holds the first entry of every context."
	if mapped {
		name = fmt.Sprintf("encodeMapped%dAVX2", lanes)
		what = "ix holds numbers of entries, offsets is not used."
	}
	emit.Begin(name,
		"func(entries *uint64, ix *uint16, offsets *[32]uint32, words *byte, size int, states *uint32, rounds int, tableLog uint64, compress *[256][16]byte) (nbytes int)",
		fmt.Sprintf("%s encodes rounds (at least one) of %d symbols and writes words into the end of size bytes: two bytes a symbol", name, lanes),
		"may be written, and the number of bytes used is returned. "+what)
	n := lanes / 8
	tl := emit.Arg("tableLog")
	scratch := emit.Scratch(32*n + 5*32)
	slots := GP64()
	MOVQ(U32(1), slots)
	SHLXQ(tl, slots, slots)
	total := constant(scratch, 32*n, slots)
	frequency := constant(scratch, 32*n+32, imm(4095))
	biasMask := constant(scratch, 32*n+64, imm(8191))
	byteMask := constant(scratch, 32*n+96, imm(255))
	sixteen := constant(scratch, 32*n+128, imm(16))
	limit := GP64()
	MOVQ(U32(31), limit)
	SUBQ(tl, limit)
	limitLog := emit.Count(limit)
	lowWords := YMM()
	VMOVDQU(wordShuffle(), lowWords)

	entries, ix, offsets := emit.Arg("entries"), emit.Arg("ix"), emit.Arg("offsets")
	words, states, rounds, compress := emit.Arg("words"), emit.Arg("states"), emit.Arg("rounds"), emit.Arg("compress")

	emit.Ends(ix, words, rounds, lanes)

	Label("round")
	SUBQ(Imm(uint64(2*lanes)), ix)
	for v := range n { // where the entries are
		symbol := YMM()
		VPMOVZXWD(Mem{Base: ix, Disp: 16 * v}, symbol)
		if !mapped {
			// A table of 32 dwords as four permutations of 8, chosen by the bits above.
			context, sel, off := YMM(), YMM(), YMM()
			VPSRLD(Imm(8), symbol, context)
			var part [4]VecVirtual
			for q := range part {
				part[q] = YMM()
				VPERMD(Mem{Base: offsets, Disp: 32 * q}, context, part[q])
			}
			VPSLLD(Imm(28), context, sel) // bit 3 to the sign
			VBLENDVPS(sel, part[1], part[0], off)
			VBLENDVPS(sel, part[3], part[2], part[2])
			VPSLLD(Imm(27), context, sel) // bit 4
			VBLENDVPS(sel, part[2], off, off)
			VPAND(byteMask, symbol, symbol)
			VPOR(off, symbol, symbol)
		}
		VMOVDQA(symbol, Mem{Base: scratch, Disp: 32 * v})
	}
	for v := n - 1; v >= 0; v-- {
		rcp, packed := gather8(entries, Mem{Base: scratch, Disp: 32 * v})
		x, f, t := YMM(), YMM(), YMM()
		VMOVDQU(Mem{Base: states, Disp: 32 * v}, x)
		VPAND(frequency, packed, f)
		VPSLLD(limitLog, f, t)
		// Lanes at or above f << limitLog emit their low word, the highest lane at the highest address.
		w, u, mask, shuffle := YMM(), YMM(), GP64(), GP64()
		VPCMPGTD(x, t, t) // stays
		VMOVMSKPS(t, mask.As32())
		XORL(U8(255), mask.As32())
		VPSHUFB(lowWords, x, w)
		VPERMQ(Imm(0x08), w, w)
		MOVL(mask.As32(), shuffle.As32())
		SHLQ(Imm(4), shuffle)
		VPSHUFB(Mem{Base: compress, Index: shuffle, Scale: 1}, w.AsX(), w.AsX())
		VMOVDQU(w.AsX(), Mem{Base: words, Disp: -16})
		POPCNTL(mask.As32(), mask.As32())
		NEGQ(mask)
		LEAQ(Mem{Base: words, Index: mask, Scale: 2}, words)
		VPANDN(sixteen, t, t)
		VPSRLVD(t, x, x)
		// q = x / f
		q, xo := YMM(), YMM()
		VPMULUDQ(rcp, x, q)
		VPSRLQ(Imm(32), x, xo)
		VPSRLQ(Imm(32), rcp, rcp)
		VPMULUDQ(rcp, xo, xo)
		VPSRLQ(Imm(32), q, q)
		VPBLENDD(Imm(0xaa), xo, q, q)
		VPSRLD(Imm(25), packed, t)
		VPSRLVD(t, q, q)
		// x += bias + q * (M - f)
		VMOVDQU(total, u)
		VPSUBD(f, u, f)
		VPMULLD(f, q, q)
		VPSRLD(Imm(12), packed, packed)
		VPAND(biasMask, packed, packed)
		VPADDD(packed, x, x)
		VPADDD(q, x, x)
		VMOVDQU(x, Mem{Base: states, Disp: 32 * v})
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))

	start := emit.Arg("words")
	size := GP64()
	Load(Param("size"), size)
	ADDQ(size, start)
	SUBQ(words, start)
	Store(start, ReturnIndex(0))
	emit.End()
}

var wordShuffleData *Mem

// wordShuffle brings the low words of the dwords of a half to its low 8 bytes.
func wordShuffle() Mem {
	if wordShuffleData == nil {
		m := GLOBL("wordShuffle", RODATA|NOPTR)
		for half := range 2 {
			DATA(16*half, U64(0x0d0c090805040100))
			DATA(16*half+8, U64(0x8080808080808080))
		}
		wordShuffleData = &m
	}
	return *wordShuffleData
}
