// Package bits has the scalar halves of the transform kernels: arguments, the tail writer and the tail reader.
package bits

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ulpack/ulpack/go/asm/emit"
)

// Indices into the kernels' parameters: the type params of package transform.
const (
	Acc      = iota // Split, in and out: tail bits that wait
	Nbits           // Split, in and out: their number, 0..7; Join, in and out: bit position in the tail
	TailLen         // Split, out: bytes written to the tail
	PlaneLen        // out: bytes written to or read from the plane
	Seen            // Split, in and out: union of all z
	Shift           // contexts: shift of the exponent
	ExpMask         // contexts: mask of the exponent
	ExpBase         // contexts: exponent of context 0
	And             // key: all ones for floats, 0 for integers
	Or              // key: the sign bit for floats, 0 for integers
	TailBits        // map 1: tail bits of a value that is not 0
	First           // map 1: base - 1
	memory          // from here on: scratch memory
)

// Size is the number of qwords of the parameters, with the scratch memory of Join: 1536 bytes, aligned to 64.
const Size = memory + 7 + 1536/8

// Scratch is the scratch memory.
func Scratch(p GPVirtual) GPVirtual {
	r := GP64()
	LEAQ(Mem{Base: p, Disp: 8*memory + 56}, r)
	ANDQ(I8(-64), r)
	return r
}

// Field is parameter i.
func Field(p GPVirtual, i int) Mem { return Mem{Base: p, Disp: 8 * i} }

// Get loads parameter i.
func Get(p GPVirtual, i int) GPVirtual {
	r := GP64()
	MOVQ(Field(p, i), r)
	return r
}

// Writer appends to the tail. A group of bits must leave room for those that wait: at most 56, or 63 - Nbits where that is known.
type Writer struct {
	ptr, acc, nbits GPVirtual
}

// NewWriter takes the writer's state from the parameters.
func NewWriter(tail, p GPVirtual) *Writer {
	return &Writer{tail, Get(p, Acc), Get(p, Nbits)}
}

// Put appends the low count bits; those of bits above must be 0.
func (w *Writer) Put(bits, count Mem) {
	v, t := GP64(), GP64()
	MOVQ(bits, v)
	SHLXQ(w.nbits, v, v)
	ORQ(v, w.acc)
	MOVQ(w.acc, Mem{Base: w.ptr})
	ADDQ(count, w.nbits)
	MOVL(w.nbits.As32(), t.As32())
	SHRL(Imm(3), t.As32())
	ADDQ(t, w.ptr)
	MOVL(w.nbits.As32(), t.As32())
	ANDL(Imm(56), t.As32())
	SHRXQ(t, w.acc, w.acc)
	ANDL(Imm(7), w.nbits.As32())
}

// Save writes the writer's state back.
func (w *Writer) Save(p GPVirtual) {
	start := emit.Arg("tail")
	SUBQ(start, w.ptr)
	MOVQ(w.ptr, Field(p, TailLen))
	MOVQ(w.acc, Field(p, Acc))
	MOVQ(w.nbits, Field(p, Nbits))
}

// Deposit is the tail reader: for each of n groups of 64 bits at masks it takes as many bits as the mask has ones from bit position pos of the
// tail, puts them under the ones and stores them at disp bytes from the mask. long allows groups of more than 57 bits.
func Deposit(tail, pos, masks GPVirtual, disp, n int, long bool) {
	for g := range n {
		v, t := GP64(), GP64()
		MOVQ(pos, t)
		SHRQ(Imm(3), t)
		MOVQ(Mem{Base: tail, Index: t, Scale: 1}, v)
		c := GP64()
		MOVL(pos.As32(), c.As32())
		ANDL(Imm(7), c.As32())
		SHRXQ(c, v, v)
		if long {
			high := GP64()
			MOVBQZX(Mem{Base: tail, Index: t, Scale: 1, Disp: 8}, high)
			XORL(Imm(63), c.As32())
			ADDQ(high, high)
			SHLXQ(c, high, high)
			ORQ(high, v)
		}
		PDEPQ(Mem{Base: masks, Disp: 8 * g}, v, v)
		MOVQ(v, Mem{Base: masks, Disp: disp + 8*g})
		POPCNTQ(Mem{Base: masks, Disp: 8 * g}, c)
		ADDQ(c, pos)
	}
}

// SplitSignature and JoinSignature are the arguments of the kernels.
const (
	SplitSignature = "func(ix *uint16, target, ref, plane, tail *byte, n int, p *[211]uint64) (done int)"
	JoinSignature  = "func(dst, ref *byte, tokens *uint8, plane, tail *byte, n int, p *[211]uint64) (done int)"
)

// WordKernel names a kernel for 16 bits above the plane.
func WordKernel(width int, leading bool) (name, what string) {
	switch {
	case width == 16 && !leading:
		return "16", "16-bit lanes with map 0 and K = 0"
	case width == 16:
		return "Leading16", "16-bit lanes with map 1 and K = 0"
	case !leading:
		return "32K16", "32-bit lanes with map 0 and K = 16"
	default:
		return "Leading32K16", "32-bit lanes with map 1 and K = 16"
	}
}

// SplitDoc and JoinDoc describe a kernel.
func SplitDoc(name, what string, block int) []string {
	return []string{name + " codes " + what + ", n lane values, a multiple of " + Itoa(block) + ", and returns how many it did: it stops before a",
		"block that it cannot do. Without tail there are tokens only. It may write 64 bytes beyond the end of plane and tail."}
}

// JoinDoc describes a kernel.
func JoinDoc(name, what string, block int) []string {
	return []string{name + " is the inverse for " + what + ", n lane values, a multiple of " + Itoa(block) + ". It returns how many it did: it stops before",
		"a block that it cannot do. The tokens are in the alphabet. It may read 64 bytes from the position of each lane value in the tail, and 32 in the plane."}
}

// Itoa is for documentation.
func Itoa(n int) string { return strconv.Itoa(n) }
