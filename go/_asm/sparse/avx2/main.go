// Command avx2 writes the AVX2 and BMI2 kernels of package sparse.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/sparse/passes"
)

func main() {
	ConstraintExpr("!purego")
	passes.Kernels("AVX2", prepare)
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
