// Command avx512 writes the AVX-512 kernels of package rans.
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

// decode keeps 16 lanes in a zmm register. A round decodes one symbol of every lane.
func decode(lanes int) {
	name := fmt.Sprintf("decode%dAVX512", lanes)
	emit.Begin(name,
		"func(entries *uint32, tokens, clusters, words *byte, states *uint32, rounds int, tableLog, clusterMask uint64) (nbytes int)",
		fmt.Sprintf("%s decodes rounds (at least one) of %d symbols, reads at most %d bytes of words a round and returns how many were used.",
			name, lanes, 2*lanes))
	n := lanes / 16
	entries, tokens, clusters := emit.Arg("entries"), emit.Arg("tokens"), emit.Arg("clusters")
	words, states, rounds := emit.Arg("words"), emit.Arg("states"), emit.Arg("rounds")
	tl := emit.Arg("tableLog")
	scratch := emit.Scratch(64 * n)

	tableLog := emit.Count(tl)
	slotMask, low, bias := ZMM(), emit.Broadcast32Z(1<<15), emit.Broadcast32Z(0xfff)
	one := GP32()
	MOVL(U32(1), one)
	SHLXL(tl.As32(), one, one)
	DECL(one)
	VPBROADCASTD(one, slotMask)
	clusterMask := ZMM()
	VPBROADCASTD(emit.Arg("clusterMask").As32(), clusterMask)

	x := make([]VecVirtual, n)
	for v := range x {
		x[v] = ZMM()
		VMOVDQU32(Mem{Base: states, Disp: 64 * v}, x[v])
	}
	start := GP64()
	MOVQ(words, start)

	Label("round")
	for v := range x { // where the entries are
		idx := ZMM()
		VPMOVZXBD(Mem{Base: clusters, Disp: 16 * v}, idx)
		VPANDD(clusterMask, idx, idx)
		VPSLLD(tableLog, idx, idx)
		VPTERNLOGD(U8(0xf8), slotMask, x[v], idx) // | slotMask & x
		VMOVDQA32(idx, Mem{Base: scratch, Disp: 64 * v})
	}
	for v := range x {
		e := gather4(entries, Mem{Base: scratch, Disp: 64 * v})
		token := XMM()
		VPMOVDB(e, token)
		VMOVDQU32(token, Mem{Base: tokens, Disp: 16 * v})
		f := ZMM()
		VPSRLD(Imm(20), e, f)
		VPSRLD(Imm(8), e, e)
		VPANDD(bias, e, e)
		VPSRLD(tableLog, x[v], x[v])
		VPMULLD(f, x[v], x[v])
		VPADDD(e, x[v], x[v])
		// Lanes below L take one word each, in order.
		need, count, w := K(), GP32(), ZMM()
		VPCMPUD(Imm(1), low, x[v], need)
		KMOVW(need, count)
		VPMOVZXWD(Mem{Base: words}, w)
		VPEXPANDD_Z(w, need, w)
		VPSLLD(Imm(16), x[v], need, x[v])
		VPORD(w, x[v], x[v])
		POPCNTL(count, count)
		LEAQ(Mem{Base: words, Index: count.As64(), Scale: 2}, words)
	}
	ADDQ(Imm(uint64(lanes)), clusters)
	ADDQ(Imm(uint64(lanes)), tokens)
	DECQ(rounds)
	JNZ(LabelRef("round"))

	for v := range x {
		VMOVDQU32(x[v], Mem{Base: states, Disp: 64 * v})
	}
	SUBQ(start, words)
	Store(words, ReturnIndex(0))
	emit.End()
}

// gather4 loads the dwords table[idx[i]] for 16 dwords idx in memory. Scalar loads and inserts take 0.6 of the time of the gather
// instruction on Zen 5, and less than it on any processor with the microcode mitigation of gather data sampling.
func gather4(table GPVirtual, idx Mem) VecVirtual {
	var quad [4]VecVirtual
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
	return join(quad)
}

// join makes a zmm register of four xmm registers.
func join(quad [4]VecVirtual) VecVirtual {
	VINSERTI32X4(Imm(1), quad[1], quad[0].AsY(), quad[0].AsY())
	VINSERTI32X4(Imm(1), quad[3], quad[2].AsY(), quad[2].AsY())
	e := ZMM()
	VINSERTI64X4(Imm(1), quad[2].AsY(), quad[0].AsZ(), e)
	return e
}

// gather8 loads the qwords table[idx[i]] for 16 dwords idx in memory and returns their low and their high dwords.
func gather8(table GPVirtual, idx Mem) (low, high VecVirtual) {
	var a, b [4]VecVirtual
	for q := range 4 {
		for h, x := range []*VecVirtual{&a[q], &b[q]} {
			*x = XMM()
			lo, hi := emit.Pair(idx.Offset(16*q + 8*h))
			VMOVQ(Mem{Base: table, Index: lo, Scale: 8}, *x)
			VPINSRQ(Imm(1), Mem{Base: table, Index: hi, Scale: 8}, *x, *x)
		}
	}
	first, second := join(a), join(b)
	low, high = ZMM(), ZMM()
	VSHUFPS(U8(0x88), second, first, low)
	VSHUFPS(U8(0xdd), second, first, high)
	return low, high
}

// encode is the way back, from the last round to the first. The symbols are context<<8 | token, where offsets has
// the first entry of every context, or entry numbers already.
func encode(lanes int, mapped bool) {
	name := fmt.Sprintf("encode%dAVX512", lanes)
	what := "offsets holds the first entry of every context."
	if mapped {
		name = fmt.Sprintf("encodeMapped%dAVX512", lanes)
		what = "ix holds numbers of entries, offsets is not used."
	}
	emit.Begin(name,
		"func(entries *uint64, ix *uint16, offsets *[32]uint32, words *byte, size int, states *uint32, rounds int, tableLog uint64) (nbytes int)",
		fmt.Sprintf("%s encodes rounds (at least one) of %d symbols and writes words into the end of size bytes: two bytes a symbol", name, lanes),
		"may be written, and the number of bytes used is returned. "+what)
	n := lanes / 16
	entries, ix, offsets := emit.Arg("entries"), emit.Arg("ix"), emit.Arg("offsets")
	words, states, rounds := emit.Arg("words"), emit.Arg("states"), emit.Arg("rounds")
	tl := emit.Arg("tableLog")
	scratch := emit.Scratch(64 * n)

	offset0, offset1, byteMask := ZMM(), ZMM(), emit.Broadcast32Z(255)
	if !mapped {
		VMOVDQU32(Mem{Base: offsets}, offset0)
		VMOVDQU32(Mem{Base: offsets, Disp: 64}, offset1)
	}
	frequency, biasMask := emit.Broadcast32Z(4095), emit.Broadcast32Z(8191)
	total := ZMM()
	one, ones := GP32(), GP32()
	MOVL(U32(1), one)
	SHLXL(tl.As32(), one, one)
	VPBROADCASTD(one, total)
	MOVL(U32(0xaaaa), one)
	odd := K()
	KMOVW(one, odd)
	MOVL(U32(0xffff), ones)
	limit := GP64()
	MOVQ(U32(31), limit)
	SUBQ(tl, limit)
	limitLog := emit.Count(limit)

	x := make([]VecVirtual, n)
	for v := range x {
		x[v] = ZMM()
		VMOVDQU32(Mem{Base: states, Disp: 64 * v}, x[v])
	}
	emit.Ends(ix, words, rounds, lanes)
	start := GP64()
	MOVQ(words, start)

	Label("round")
	SUBQ(Imm(uint64(2*lanes)), ix)
	for v := range x { // where the entries are
		symbol, idx := ZMM(), ZMM()
		VPMOVZXWD(Mem{Base: ix, Disp: 32 * v}, symbol)
		if mapped {
			idx = symbol
		} else {
			VPSRLD(Imm(8), symbol, idx)
			VPERMI2D(offset1, offset0, idx)
			VPTERNLOGD(U8(0xf8), byteMask, symbol, idx) // | byteMask & symbol
		}
		VMOVDQA32(idx, Mem{Base: scratch, Disp: 64 * v})
	}
	for v := n - 1; v >= 0; v-- {
		rcp, packed := gather8(entries, Mem{Base: scratch, Disp: 64 * v})
		f, t := ZMM(), ZMM()
		VPANDD(frequency, packed, f)
		VPSLLD(limitLog, f, t)
		// Lanes at or above f << limitLog emit their low word.
		emits, count, mask := K(), GP32(), K()
		VPCMPUD(Imm(5), t, x[v], emits)
		KMOVW(emits, count)
		POPCNTL(count, count)
		VPCOMPRESSD_Z(x[v], emits, t)
		VPMOVDW(t, t.AsY())
		used := GP32()
		BZHIL(count, ones, used)
		KMOVD(used, mask)
		NEGQ(count.As64())
		LEAQ(Mem{Base: words, Index: count.As64(), Scale: 2}, words)
		VMOVDQU16(t.AsY(), mask, Mem{Base: words})
		VPSRLD(Imm(16), x[v], emits, x[v])
		// q = x / f
		q, xo, ro := ZMM(), ZMM(), ZMM()
		VPSRLQ(Imm(32), x[v], xo)
		VPSRLQ(Imm(32), rcp, ro)
		VPMULUDQ(rcp, x[v], q)
		VPMULUDQ(ro, xo, xo)
		VPSRLQ(Imm(32), q, q)
		VMOVDQA32(xo, odd, q)
		VPSRLD(Imm(25), packed, t)
		VPSRLVD(t, q, q)
		// x += bias + q * (M - f)
		VPSUBD(f, total, f)
		VPMULLD(f, q, q)
		VPSRLD(Imm(12), packed, packed)
		VPANDD(biasMask, packed, packed)
		VPADDD(packed, x[v], x[v])
		VPADDD(q, x[v], x[v])
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))

	for v := range x {
		VMOVDQU32(x[v], Mem{Base: states, Disp: 64 * v})
	}
	SUBQ(words, start)
	Store(start, ReturnIndex(0))
	emit.End()
}
