// Command avx2 writes the AVX2 and BMI2 kernels of package sparse.
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
	passes.Kernels("AVX2", prepare)
	changed(16)
	changed(32)
	Generate()
}

func prepare(cluster GPVirtual) passes.Find {
	x, want := XMM(), YMM()
	VMOVD(cluster.As32(), x)
	VPBROADCASTB(x, want)
	return func(block Mem, mask GPVirtual) {
		low, high, top := YMM(), YMM(), GP64()
		VPCMPEQB(block, want, low)
		VPCMPEQB(block.Offset(32), want, high)
		VPMOVMSKB(low, mask.As32())
		VPMOVMSKB(high, top.As32())
		SHLQ(Imm(32), top)
		ORQ(top, mask)
	}
}

// changed compares 64 lane values at a time: the results of 16 or 32 bits a lane value are packed to bytes, which the packing of
// halves leaves out of order.
func changed(width int) {
	name := fmt.Sprintf("changed%dAVX2", width)
	emit.Begin(name, "func(masks *uint64, a, b *byte, blocks int)",
		fmt.Sprintf("%s sets the bits of masks for the lane values of %d bits in which a and b differ: blocks (at least one) of 64.", name, width))
	masks, a, b, blocks := emit.Arg("masks"), emit.Arg("a"), emit.Arg("b"), emit.Arg("blocks")
	Label("block")
	at := 0
	var bytes [2]VecVirtual
	for half := range bytes { // 32 lane values each
		var words [2]VecVirtual
		for i := range words { // 16 lane values each
			words[i] = YMM()
			if width == 16 {
				VMOVDQU(Mem{Base: a, Disp: at}, words[i])
				VPCMPEQW(Mem{Base: b, Disp: at}, words[i], words[i])
				at += 32
				continue
			}
			high := YMM()
			VMOVDQU(Mem{Base: a, Disp: at}, words[i])
			VPCMPEQD(Mem{Base: b, Disp: at}, words[i], words[i])
			VMOVDQU(Mem{Base: a, Disp: at + 32}, high)
			VPCMPEQD(Mem{Base: b, Disp: at + 32}, high, high)
			VPACKSSDW(high, words[i], words[i])
			VPERMQ(Imm(0xd8), words[i], words[i])
			at += 64
		}
		VPACKSSWB(words[1], words[0], words[0])
		VPERMQ(Imm(0xd8), words[0], words[0])
		bytes[half] = words[0]
	}
	low, high := GP64(), GP64()
	VPMOVMSKB(bytes[0], low.As32())
	VPMOVMSKB(bytes[1], high.As32())
	SHLQ(Imm(32), high)
	ORQ(high, low)
	NOTQ(low)
	MOVQ(low, Mem{Base: masks})
	ADDQ(Imm(8), masks)
	ADDQ(U32(uint32(8*width)), a)
	ADDQ(U32(uint32(8*width)), b)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	emit.End()
}
