// Command avx512 writes the AVX-512 kernels of package sparse.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/emit"
	"github.com/ulpack/ulpack/go/asm/sparse/passes"
)

func main() {
	ConstraintExpr("!purego")
	passes.Kernels("AVX512", prepare)
	changed(16)
	changed(32)
	Generate()
}

func prepare(cluster GPVirtual) passes.Find {
	want := ZMM()
	VPBROADCASTB(cluster.As32(), want)
	return func(block Mem, mask GPVirtual) {
		same := K()
		VPCMPEQB(block, want, same)
		KMOVQ(same, mask)
	}
}

// changed compares 64 lane values at a time.
func changed(width int) {
	name := fmt.Sprintf("changed%dAVX512", width)
	emit.Begin(name, "func(masks *uint64, a, b *byte, blocks int)",
		fmt.Sprintf("%s sets the bits of masks for the lane values of %d bits in which a and b differ: blocks (at least one) of 64.", name, width))
	masks, a, b, blocks := emit.Arg("masks"), emit.Arg("a"), emit.Arg("b"), emit.Arg("blocks")
	const notEqual = 4
	Label("block")
	all := GP64()
	for i := range width / 8 {
		z, differs := ZMM(), K()
		VMOVDQU64(Mem{Base: a, Disp: 64 * i}, z)
		part := all
		if i > 0 {
			part = GP64()
		}
		if width == 16 {
			VPCMPUW(Imm(notEqual), Mem{Base: b, Disp: 64 * i}, z, differs)
			KMOVD(differs, part.As32())
		} else {
			VPCMPUD(Imm(notEqual), Mem{Base: b, Disp: 64 * i}, z, differs)
			KMOVW(differs, part.As32())
		}
		if i > 0 {
			SHLQ(Imm(uint64(512/width*i)), part)
			ORQ(part, all)
		}
	}
	MOVQ(all, Mem{Base: masks})
	ADDQ(Imm(8), masks)
	ADDQ(U32(uint32(8*width)), a)
	ADDQ(U32(uint32(8*width)), b)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	emit.End()
}
