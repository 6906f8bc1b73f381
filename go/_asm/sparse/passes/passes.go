// Package passes has the kernels of package sparse but for how the lane values of a cluster are found in a block of 64.
package passes

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/emit"
)

// Find sets a bit of mask for each of 64 bytes at block that equal the cluster; what it needs for that is made by its caller.
type Find func(block Mem, mask GPVirtual)

// Kernels writes the kernels of a set; prepare makes the Find for the cluster in a register.
func Kernels(set string, prepare func(cluster GPVirtual) Find) {
	count(set, prepare)
	places(set, prepare)
	ranks(set, prepare)
}

func count(set string, prepare func(GPVirtual) Find) {
	emit.Begin("count"+set, "func(clusters *byte, blocks int, cluster uint64) (n int)",
		"count"+set+" counts the bytes of blocks (at least one) of 64 that equal cluster.")
	find := prepare(emit.Arg("cluster"))
	clusters, blocks := emit.Arg("clusters"), emit.Arg("blocks")
	sum, mask := GP64(), GP64()
	XORQ(sum, sum)
	Label("block")
	find(Mem{Base: clusters}, mask)
	POPCNTQ(mask, mask)
	ADDQ(mask, sum)
	ADDQ(Imm(64), clusters)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	Store(sum, ReturnIndex(0))
	emit.End()
}

func places(set string, prepare func(GPVirtual) Find) {
	emit.Begin("places"+set, "func(places, ranks *uint32, n int, clusters *byte, cluster uint64)",
		"places"+set+" finds n (at least one) bytes by their ranks, which increase, among the bytes that equal cluster: there must be",
		"as many, in blocks of 64.")
	find := prepare(emit.Arg("cluster"))
	clusters, out, in, n := emit.Arg("clusters"), emit.Arg("places"), emit.Arg("ranks"), emit.Arg("n")
	base, before, after, rank := GP64(), GP64(), GP64(), GP64()
	mask, one, bit := GP64(), GP64(), GP64()
	XORQ(base, base)
	XORQ(after, after)
	MOVQ(U32(1), one)
	SUBQ(Imm(64), base)
	MOVL(Mem{Base: in}, rank.As32())

	Label("block")
	ADDQ(Imm(64), base)
	MOVQ(after, before)
	find(Mem{Base: clusters, Index: base, Scale: 1}, mask)
	POPCNTQ(mask, after)
	ADDQ(before, after)
	Label("rank")
	CMPQ(rank, after)
	JAE(LabelRef("block"))
	SUBQ(before, rank)
	SHLXQ(rank, one, bit)
	PDEPQ(mask, bit, bit)
	TZCNTQ(bit, bit)
	ADDQ(base, bit)
	MOVL(bit.As32(), Mem{Base: out})
	ADDQ(Imm(4), out)
	ADDQ(Imm(4), in)
	DECQ(n)
	JZ(LabelRef("done"))
	MOVL(Mem{Base: in}, rank.As32())
	JMP(LabelRef("rank"))
	Label("done")
	emit.End()
}

func ranks(set string, prepare func(GPVirtual) Find) {
	emit.Begin("ranks"+set, "func(ranks, places *uint32, n int, clusters *byte, cluster uint64)",
		"ranks"+set+" is the inverse: it counts, for n (at least one) bytes at places, which increase, the bytes before them that equal",
		"cluster, in blocks of 64.")
	find := prepare(emit.Arg("cluster"))
	clusters, out, in, n := emit.Arg("clusters"), emit.Arg("ranks"), emit.Arg("places"), emit.Arg("n")
	base, before, after, place := GP64(), GP64(), GP64(), GP64()
	mask, below := GP64(), GP64()
	XORQ(base, base)
	XORQ(after, after)
	SUBQ(Imm(64), base)
	MOVL(Mem{Base: in}, place.As32())

	Label("block")
	ADDQ(Imm(64), base)
	MOVQ(after, before)
	find(Mem{Base: clusters, Index: base, Scale: 1}, mask)
	POPCNTQ(mask, after)
	ADDQ(before, after)
	Label("place")
	MOVQ(place, below)
	SUBQ(base, below)
	CMPQ(below, Imm(64))
	JAE(LabelRef("block"))
	BZHIQ(below, mask, below)
	POPCNTQ(below, below)
	ADDQ(before, below)
	MOVL(below.As32(), Mem{Base: out})
	ADDQ(Imm(4), out)
	ADDQ(Imm(4), in)
	DECQ(n)
	JZ(LabelRef("done"))
	MOVL(Mem{Base: in}, place.As32())
	JMP(LabelRef("place"))
	Label("done")
	emit.End()
}
