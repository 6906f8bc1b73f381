package transform

// maxCall bounds the lane values of one call of a kernel, which the Go scheduler cannot interrupt.
const maxCall = 1 << 15

// kernel names what the assembly does: lane width, token map and plane. Everything else is generic.
type kernel uint8

const (
	kernelNone kernel = iota
	kernel16
	kernel32K16
	kernel32K8
	kernel32K0
	kernelLeading16
	kernelLeading32K16
	kernelDirect8
)

// kernelTailBits is the largest tail of map 1 that kernels handle: as with map 0 and 16 bits, four of them fit 52 bits.
const kernelTailBits = 13

// kernel returns the kernel for s.
func (s *Spec) kernel() kernel {
	if !hasKernels() {
		return kernelNone
	}
	if s.Width == 32 && s.Float && s.MantBits < 16 {
		return kernelNone // the exponent is not in the high word
	}
	switch {
	case s.Map == MapLeading && s.T-s.K > kernelTailBits:
		return kernelNone
	case s.Map == MapLeading && s.Width == 16 && s.K == 0:
		return kernelLeading16
	case s.Map == MapLeading && s.Width == 32 && s.K == 16:
		return kernelLeading32K16
	case s.Map == MapLeading || s.Predictor == PredictNone && s.Float:
		return kernelNone
	case s.Width == 8:
		return kernelDirect8
	case s.Width == 16 && s.K == 0:
		return kernel16
	case s.Width == 32 && s.K == 16:
		return kernel32K16
	case s.Width == 32 && s.K == 8:
		return kernel32K8
	case s.Width == 32 && s.K == 0:
		return kernel32K0
	}
	return kernelNone
}

// params are the parameters of the kernels and, behind them, scratch memory: keep in step with go/_asm/transform/bits.
type params [211]uint64

const (
	paramAcc      = iota // Split, in and out: tail bits that wait
	paramNbits           // Split, in and out: their number, 0..7; Join, in and out: bit position in the tail
	paramTailLen         // Split, out: bytes written to the tail
	paramPlaneLen        // out: bytes written to or read from the plane
	paramSeen            // Split, in and out: not 0 if a z is not 0
	paramShift           // contexts: shift of the exponent
	paramExpMask         // contexts: mask of the exponent
	paramExpBase         // contexts: exponent of context 0
	paramAnd             // key: all ones for floats, 0 for integers
	paramOr              // key: the sign bit for floats, 0 for integers
	paramTailBits        // map 1: tail bits of a value that is not 0
	paramFirst           // map 1: base - 1
)

func (p *params) set(s *Spec) {
	if s.ContextPart == ContextExponent {
		p[paramShift], p[paramExpMask], p[paramExpBase] = uint64(s.MantBits), 1<<s.ExpBits-1, uint64(min(s.ExpBase, 1<<16-1))
		if s.Width == 32 && s.K == 16 {
			p[paramShift] -= 16
		}
	}
	if s.ContextPart == ContextByte {
		p[paramExpMask] = 0xff
	}
	p[paramAnd], p[paramOr] = 0, 0 // a reader may have served floats before
	if s.Float && s.Predictor == PredictReference {
		p[paramAnd], p[paramOr] = 1<<64-1, 1<<(s.Width-1)
	}
	p[paramTailBits], p[paramFirst] = uint64(s.T-s.K)&63, s.Base-1
}

// zeros is the reference of integers without one: the difference to zero.
var zeros [1 << 14]byte

// splitKernels codes with kernels as much as they can and returns how many lane values that is; generic code does the others.
func (s *Spec) splitKernels(ix []uint16, target, ref []byte, raw *RawWriter) (n int, seen bool) {
	k := s.kernel()
	if k == kernelNone {
		return 0, false
	}
	var p params
	p.set(s)
	lane := s.Width / 8
	for len(ix)-n >= splitBlock {
		m := min(len(ix)-n, maxCall)
		r := ref[n*lane:]
		if s.Predictor == PredictNone && s.Map != MapLeading {
			r = zeros[:]
			m = min(m, len(zeros)/lane)
		}
		m &^= splitBlock - 1
		if raw != nil {
			p[paramAcc], p[paramNbits] = raw.acc, uint64(raw.nbits)
		}
		done := splitKernel(k, ix[n:n+m], target[n*lane:], r, raw, &p)
		if raw != nil {
			raw.acc, raw.nbits = p[paramAcc], uint(p[paramNbits])
			raw.tailLen += int(p[paramTailLen])
			raw.planeLen += int(p[paramPlaneLen])
		}
		n += done
		if done < m { // a block that the kernel leaves to generic code
			m = splitBlock - done%splitBlock
			any := s.splitGeneric(ix[n:n+m], target[n*lane:], ref[n*lane:], raw)
			seen = seen || any
			n += m
		}
	}
	return n, seen || p[paramSeen] != 0
}

// splitBlock is a number of lane values that all Split kernels divide.
const splitBlock = 32

// joinBlock is the same for Join, clusterBlock for Clusters and statBlock for the counts before Join.
const (
	joinBlock    = padBlock
	clusterBlock = 32
	statBlock    = 32
)

// joinKernels decodes with kernels as much as they can and returns how many lane values that is. The tokens were checked.
func (s *Spec) joinKernels(dst, ref []byte, tokens []uint8, raw *RawReader) (n int, ok bool) {
	k := s.kernel()
	if k == kernelNone {
		return 0, true
	}
	p := &raw.params
	p.set(s)
	p[paramPlaneLen] = 0
	lane := s.Width / 8
	for len(tokens)-n >= joinBlock {
		r := ref[n*lane:]
		m := min(len(tokens)-n, maxCall)
		if s.Predictor == PredictNone && s.Map != MapLeading {
			r = zeros[:]
			m = min(m, len(zeros)/lane)
		}
		var plane []byte
		tail, tailPos := raw.pad.tail[:], 0
		if k != kernelDirect8 { // which has no raw bits
			if m, plane, tail, tailPos, ok = raw.kernelWindow(s, tokens[n:n+m]); !ok {
				return n, false
			}
		}
		m &^= joinBlock - 1
		p[paramNbits] = uint64(tailPos)
		done := joinKernel(k, dst[n*lane:], r, tokens[n:n+m], plane, tail, p)
		if !raw.advance(int(p[paramPlaneLen]), int(p[paramNbits])-tailPos) {
			return n, false
		}
		n += done
		if done < m {
			if !s.joinGeneric(dst[n*lane:], ref[n*lane:], tokens[n:n+joinBlock], raw) {
				return n, false
			}
			n += joinBlock
		}
	}
	return n, true
}

// kernelWindow is window for kernels, which have more values to read when few bits are left, as in mostly unchanged tensors: what remains
// of the tail or the plane is copied when it is short, and how much of it the tokens need is counted. ok is false if that is more
// than there is.
func (r *RawReader) kernelWindow(s *Spec, tokens []uint8) (count int, plane, tail []byte, tailPos int, ok bool) {
	maxTail, planeBytes := s.MaxTailBits(), s.K/8
	plane, tail = r.plane[r.planePos:], r.tail[r.tailPos>>3:]
	tailPos = r.tailPos & 7
	need := min(len(tokens), padBlock)
	count = len(tokens)
	short := false
	if direct := 8*(len(tail)-tailWindow) - 7; direct >= need*maxTail && len(tail) >= tailWindow {
		if maxTail > 0 {
			count = min(count, direct/maxTail)
		}
	} else {
		short = true
		tail = r.pad.tail[:]
		clear(tail[copy(tail, r.tail[r.tailPos>>3:]):])
	}
	if direct := len(plane) - planeWindow; direct >= need*planeBytes {
		if planeBytes > 0 {
			count = min(count, direct/planeBytes)
		}
	} else if planeBytes > 0 {
		short = true
		plane = r.pad.plane[:]
		clear(plane[copy(plane, r.plane[r.planePos:]):])
	}
	if short {
		bits, values := s.rawNeed(tokens[:count])
		if r.tailPos+bits > 8*len(r.tail) || values*planeBytes > len(r.plane)-r.planePos {
			r.bad = true
			return 0, nil, nil, 0, false
		}
	}
	return count, plane, tail, tailPos, true
}

// rawNeed counts the tail bits and the values with plane bytes of tokens of map 0 or 1.
func (s *Spec) rawNeed(tokens []uint8) (tailBits, values int) {
	hybridBits, zeros := tokenSums(tokens)
	if s.Map == MapLeading {
		values = len(tokens) - zeros
		return values * (s.T - s.K), values
	}
	return hybridBits, len(tokens)
}
