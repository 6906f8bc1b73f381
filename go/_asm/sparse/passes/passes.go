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

// stride is the number of blocks that are passed at once where they have nothing to offer.
const stride = 4

func places(set string, prepare func(GPVirtual) Find) {
	emit.Begin("places"+set, "func(places, ranks *uint32, n int, clusters *byte, cluster uint64)",
		"places"+set+" finds n (at least one) bytes by their ranks, which increase, among the bytes that equal cluster: there must be",
		"as many, and after the last one up to 255 bytes may be read.")
	find := prepare(emit.Arg("cluster"))
	clusters, out, in, n := emit.Arg("clusters"), emit.Arg("places"), emit.Arg("ranks"), emit.Arg("n")
	base, before, after, rank := GP64(), GP64(), GP64(), GP64()
	mask, one, bit := GP64(), GP64(), GP64()
	XORQ(base, base)
	XORQ(before, before)
	MOVQ(U32(1), one)
	MOVL(Mem{Base: in}, rank.As32())

	Label("blocks") // several blocks without the next place
	MOVQ(before, after)
	for i := range stride {
		find(Mem{Base: clusters, Index: base, Scale: 1, Disp: 64 * i}, mask)
		POPCNTQ(mask, mask)
		ADDQ(mask, after)
	}
	CMPQ(rank, after)
	JB(LabelRef("block"))
	MOVQ(after, before)
	ADDQ(U32(64*stride), base)
	JMP(LabelRef("blocks"))

	Label("block") // one of the next blocks has it
	find(Mem{Base: clusters, Index: base, Scale: 1}, mask)
	POPCNTQ(mask, after)
	ADDQ(before, after)
	Label("rank")
	CMPQ(rank, after)
	JAE(LabelRef("pass"))
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
	CMPQ(rank, after)
	JB(LabelRef("rank"))
	MOVQ(after, before)
	ADDQ(Imm(64), base)
	JMP(LabelRef("blocks"))
	Label("pass")
	MOVQ(after, before)
	ADDQ(Imm(64), base)
	JMP(LabelRef("block"))
	Label("done")
	emit.End()
}

func ranks(set string, prepare func(GPVirtual) Find) {
	emit.Begin("ranks"+set, "func(ranks, places *uint32, n int, clusters *byte, cluster uint64)",
		"ranks"+set+" is the inverse: it counts, for n (at least one) bytes at places, which increase, the bytes before them that equal",
		"cluster, in blocks of 256.")
	find := prepare(emit.Arg("cluster"))
	clusters, out, in, n := emit.Arg("clusters"), emit.Arg("ranks"), emit.Arg("places"), emit.Arg("n")
	base, before, place := GP64(), GP64(), GP64()
	mask, below := GP64(), GP64()
	var sum [stride]GPVirtual
	for i := range sum {
		sum[i] = GP64()
	}
	XORQ(base, base)
	XORQ(before, before)
	MOVL(Mem{Base: in}, place.As32())

	Label("place")
	MOVQ(place, below)
	SUBQ(base, below)
	CMPQ(below, U32(64*stride))
	JB(LabelRef("near"))
	for i := range sum {
		find(Mem{Base: clusters, Index: base, Scale: 1, Disp: 64 * i}, sum[i])
		POPCNTQ(sum[i], sum[i])
		ADDQ(sum[i], before)
	}
	ADDQ(U32(64*stride), base)
	JMP(LabelRef("place"))
	Label("near")
	find(Mem{Base: clusters, Index: base, Scale: 1}, mask)
	CMPQ(below, Imm(64))
	JB(LabelRef("inside"))
	POPCNTQ(mask, mask)
	ADDQ(mask, before)
	ADDQ(Imm(64), base)
	SUBQ(Imm(64), below)
	JMP(LabelRef("near"))
	Label("inside")
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
