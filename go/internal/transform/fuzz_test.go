package transform

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/cpu"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// FuzzSplitJoin takes arbitrary targets and references through every spec of a kind with every kernel set.
func FuzzSplitJoin(f *testing.F) {
	for i, k := range kinds {
		target, ref := patterns(k, 300+i, uint64(i))
		f.Add(uint8(i), uint16(100+i), target, ref)
	}
	f.Fuzz(func(t *testing.T, which uint8, piece uint16, target, ref []byte) {
		k := kinds[int(which)%len(kinds)]
		m := min(len(target), len(ref), 40000) * 8 / k.width
		target, ref = target[:m*k.width/8], ref[:m*k.width/8]
		for _, s := range specs(k, target) {
			for _, set := range testkit.KernelSets() {
				restore := cpu.Use(set)
				checkSpec(t, s, target, ref, max(int(piece), 1))
				restore()
			}
		}
	})
}

// FuzzJoin takes arbitrary tokens and raw bits: all kernel sets accept the same input with the same result, and none writes elsewhere.
func FuzzJoin(f *testing.F) {
	for i, k := range kinds {
		target, ref := patterns(k, 400, uint64(i))
		for j, s := range specs(k, target) {
			want := oracleSplit(&s, 400, target, ref)
			tokens := make([]uint8, 400)
			for i, v := range want.ix {
				tokens[i] = uint8(v)
			}
			f.Add(uint8(i), uint8(j), uint16(150), tokens, want.plane, want.tail)
		}
	}
	f.Fuzz(func(t *testing.T, which, spec uint8, piece uint16, tokens, plane, tail []byte) {
		k := kinds[int(which)%len(kinds)]
		target, _ := patterns(k, 400, uint64(which))
		all := specs(k, target)
		s := all[int(spec)%len(all)]
		tokens = tokens[:min(len(tokens), 5000)]
		step := max(int(piece), 1)
		_, ref := patterns(k, len(tokens), 1)
		if s.Predictor == PredictNone {
			ref = nil
		}
		var first []byte
		var firstOK bool
		for i, set := range testkit.KernelSets() {
			restore := cpu.Use(set)
			dst := testkit.Guard(len(tokens)*k.width/8, 1, 0)
			var raw RawReader
			raw.Init(clip(plane), clip(tail))
			ok := true
			for a := 0; a < len(tokens) && ok; a += step {
				b := min(a+step, len(tokens))
				ok = s.Join(sub(dst.Bytes(), &s, a, b), sub(ref, &s, a, b), tokens[a:b:b], &raw)
			}
			ok = ok && raw.Done()
			restore()
			dst.Check(t)
			if i == 0 {
				first, firstOK = dst.Bytes(), ok
				continue
			}
			require.Equal(t, firstOK, ok)
			if ok {
				require.Equal(t, string(first), string(dst.Bytes()))
			}
		}
	})
}
