// Command avx512 writes the AVX-512 kernels of package sparse.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/sparse/passes"
)

func main() {
	ConstraintExpr("!purego")
	passes.Kernels("AVX512", prepare)
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
