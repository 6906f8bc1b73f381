//go:build !purego

package transform

import (
	"slices"

	"github.com/ulpack/ulpack/go/internal/cpu"
)

func hasKernels() bool { return cpu.HasAVX2 }

// splitKernel runs Split kernel k on len(ix) lane values, a multiple of splitBlock, and returns how many it did. raw has room for them.
func splitKernel(k kernel, ix []uint16, target, ref []byte, raw *RawWriter, p *params) int {
	var plane, tail *byte
	if raw != nil {
		plane, tail = &raw.plane[raw.planeLen], &raw.tail[raw.tailLen]
	}
	a, x, r, n, q := &ix[0], &target[0], &ref[0], len(ix), (*[211]uint64)(p)
	if cpu.HasAVX512 {
		switch k {
		case kernel16:
			return split16AVX512(a, x, r, plane, tail, n, q)
		case kernel32K16:
			return split32K16AVX512(a, x, r, plane, tail, n, q)
		case kernel32K8:
			return split32K8AVX512(a, x, r, plane, tail, n, q)
		case kernel32K0:
			return split32K0AVX512(a, x, r, plane, tail, n, q)
		case kernelLeading16:
			return splitLeading16AVX512(a, x, r, plane, tail, n, q)
		case kernelLeading32K16:
			return splitLeading32K16AVX512(a, x, r, plane, tail, n, q)
		}
	}
	switch k {
	case kernel16:
		return split16AVX2(a, x, r, plane, tail, n, q)
	case kernel32K16:
		return split32K16AVX2(a, x, r, plane, tail, n, q)
	case kernel32K8:
		return split32K8AVX2(a, x, r, plane, tail, n, q)
	case kernel32K0:
		return split32K0AVX2(a, x, r, plane, tail, n, q)
	case kernelLeading16:
		return splitLeading16AVX2(a, x, r, plane, tail, n, q)
	case kernelLeading32K16:
		return splitLeading32K16AVX2(a, x, r, plane, tail, n, q)
	case kernelDirect8:
		return splitDirect8AVX2(a, x, r, plane, tail, n, q)
	}
	panic("no such kernel")
}

// joinKernel runs Join kernel k on len(tokens) lane values, a multiple of joinBlock, and returns how many it did. plane and tail are a
// window for that many.
func joinKernel(k kernel, dst, ref []byte, tokens []uint8, plane, tail []byte, p *params) int {
	var pl *byte
	if len(plane) > 0 {
		pl = &plane[0]
	}
	d, r, s, t, n, q := &dst[0], &ref[0], &tokens[0], &tail[0], len(tokens), (*[211]uint64)(p)
	if cpu.HasAVX512 {
		switch k {
		case kernel16:
			return join16AVX512(d, r, s, pl, t, n, q)
		case kernel32K16:
			return join32K16AVX512(d, r, s, pl, t, n, q)
		case kernel32K8:
			return join32K8AVX512(d, r, s, pl, t, n, q)
		case kernel32K0:
			return join32K0AVX512(d, r, s, pl, t, n, q)
		case kernelLeading16:
			return joinLeading16AVX512(d, r, s, pl, t, n, q)
		case kernelLeading32K16:
			return joinLeading32K16AVX512(d, r, s, pl, t, n, q)
		}
	}
	switch k {
	case kernel16:
		return join16AVX2(d, r, s, pl, t, n, q)
	case kernel32K16:
		return join32K16AVX2(d, r, s, pl, t, n, q)
	case kernel32K8:
		return join32K8AVX2(d, r, s, pl, t, n, q)
	case kernel32K0:
		return join32K0AVX2(d, r, s, pl, t, n, q)
	case kernelLeading16:
		return joinLeading16AVX2(d, r, s, pl, t, n, q)
	case kernelLeading32K16:
		return joinLeading32K16AVX2(d, r, s, pl, t, n, q)
	case kernelDirect8:
		return joinDirect8AVX2(d, r, s, pl, t, n, q)
	}
	panic("no such kernel")
}

// clustersKernel is Clusters with context part 1 as far as there is a kernel; it returns the number of lane values.
func (s *Spec) clustersKernel(dst []uint8, ref []byte, table *[32]uint8) int {
	n := len(dst) &^ (clusterBlock - 1)
	if n == 0 || !cpu.HasAVX2 || s.Width > 32 || s.MantBits < s.Width-16 {
		return 0
	}
	var p params
	p.set(s)
	p[paramShift] = uint64(s.MantBits - (s.Width - 16)) // in the high word
	q := (*[211]uint64)(&p)
	for at := 0; at < n; {
		m := min(n-at, maxCall)
		d, r := &dst[at], &ref[at*s.Width/8]
		switch {
		case s.Width == 16 && cpu.HasAVX512:
			clusters16AVX512(d, r, m, q, table)
		case cpu.HasAVX512:
			clusters32AVX512(d, r, m, q, table)
		case s.Width == 16:
			clusters16AVX2(d, r, m, q, table)
		default:
			clusters32AVX2(d, r, m, q, table)
		}
		at += m
	}
	return n
}

// largestToken returns the largest of tokens, a multiple of statBlock.
func largestToken(tokens []uint8) int {
	var largest [32]uint8
	tokenStatsAVX2(&tokens[0], len(tokens), &largest)
	return int(slices.Max(largest[:]))
}

// tokenSums returns the tail bits of tokens of map 0 and the number of zeros.
func tokenSums(tokens []uint8) (tailBits, zeros int) {
	n := len(tokens) &^ (statBlock - 1)
	if n > 0 {
		var largest [32]uint8
		a, b := tokenStatsAVX2(&tokens[0], n, &largest)
		tailBits, zeros = int(a), int(b)
	}
	for _, s := range tokens[n:] {
		tailBits += max(int(s>>2), 1) - 1
		if s == 0 {
			zeros++
		}
	}
	return tailBits, zeros
}
