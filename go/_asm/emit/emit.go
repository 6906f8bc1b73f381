// Package emit has what the generators share. All code is for amd64, assembled unless the tag purego is set.
package emit

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Begin starts a kernel. Kernels are leaf functions without pointers in their frames.
func Begin(name, signature string, doc ...string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc...)
}

// End leaves a kernel with a clean upper half of the vector registers.
func End() {
	VZEROUPPER()
	RET()
}

// Pair loads two dwords into two registers, extended to 64 bits.
func Pair(m Mem) (low, high GPVirtual) {
	low, high = GP64(), GP64()
	MOVQ(m, high)
	MOVL(high.As32(), low.As32())
	SHRQ(Imm(32), high)
	return low, high
}

// Arg loads a pointer or integer argument of 64 bits.
func Arg(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// Ends moves ix to the end of rounds*lanes symbols and words to the end of the bytes whose number is the argument size.
func Ends(ix, words, rounds GPVirtual, lanes int) {
	n := GP64()
	IMUL3Q(U32(uint32(2*lanes)), rounds, n)
	ADDQ(n, ix)
	size := GP64()
	Load(Param("size"), size)
	ADDQ(size, words)
}

// Broadcast32Z returns v in every dword of a zmm register.
func Broadcast32Z(v uint32) VecVirtual {
	r, z := GP32(), ZMM()
	MOVL(U32(v), r)
	VPBROADCASTD(r, z)
	return z
}

// Broadcast32Y returns v in every dword of a ymm register.
func Broadcast32Y(v uint32) VecVirtual {
	r, x, y := GP32(), XMM(), YMM()
	MOVL(U32(v), r)
	VMOVD(r, x)
	VPBROADCASTD(x, y)
	return y
}

// Count returns a GP register in the low dword of an xmm register, as a shift count.
func Count(r GPVirtual) VecVirtual {
	x := XMM()
	VMOVQ(r, x)
	return x
}

// Scratch reserves size bytes of the frame and returns a pointer to them, aligned to 64 bytes.
func Scratch(size int) GPVirtual {
	m := AllocLocal(size + 64)
	p := GP64()
	LEAQ(m, p)
	ADDQ(Imm(63), p)
	ANDQ(I8(-64), p)
	return p
}
