package transform

import (
	"testing"

	"github.com/ulpack/ulpack/go/internal/testkit"
)

type benchCase struct {
	name string
	spec Spec
}

func benchCases() []benchCase {
	bf16 := Spec{Width: 16, Float: true, ExpBits: 8, MantBits: 7, Predictor: 1, ContextPart: 1, ExpBase: 100}
	f16 := Spec{Width: 16, Float: true, ExpBits: 5, MantBits: 10, Predictor: 1, ContextPart: 1}
	f32 := Spec{Width: 32, Float: true, ExpBits: 8, MantBits: 23, Predictor: 1, ContextPart: 1, ExpBase: 100}
	f32k16, f32k8 := f32, f32
	f32k16.K, f32k8.K = 16, 8
	f64 := Spec{Width: 64, Float: true, ExpBits: 11, MantBits: 52, Predictor: 1, ContextPart: 1, ExpBase: 1000, K: 40}
	e4m3 := Spec{Width: 8, Float: true, ExpBits: 4, MantBits: 3, Predictor: 1, Map: MapDirect, ContextPart: 2}
	return []benchCase{{"bf16", bf16}, {"f16", f16}, {"f32K16", f32k16}, {"f32K8", f32k8}, {"f32K0", f32}, {"f64K40", f64}, {"e4m3", e4m3}}
}

const benchN = 1 << 18

func benchData(s Spec) (target, ref []byte) {
	return testkit.Float(benchN, s.Width, s.ExpBits, s.MantBits, 0.01, 1)
}

// eachBench runs f for every kernel set and case: bf16, f16, f32, f64 and fp8 against a reference, bf16 and f32 alone.
func eachBench(b *testing.B, f func(b *testing.B, s Spec, target, ref []byte)) {
	cases := benchCases()
	for _, c := range []benchCase{cases[0], cases[4]} {
		target, _ := benchData(c.spec)
		s := leading(c.spec, c.spec.MantBits-1, target)
		if s.Width > 16 {
			s.K = s.T / 8 * 8
		}
		cases = append(cases, benchCase{c.name + "alone", s})
	}
	cases = append(cases, benchCase{"bf16sparse", cases[0].spec}) // 1 % changed
	for _, c := range cases {
		target, ref := benchData(c.spec)
		if c.name == "bf16sparse" {
			rng := testkit.Rand(4)
			target = append(target[:0], ref...)
			for range benchN / 100 {
				target[2*rng.IntN(benchN)]++
			}
		}
		if c.spec.Predictor == PredictNone {
			ref = nil
		}
		b.Run(c.name, func(b *testing.B) {
			testkit.BenchKernel(b, func(b *testing.B) {
				f(b, c.spec, target, ref)
				testkit.Report(b, benchN, len(target))
			})
		})
	}
}

func sub(b []byte, s *Spec, from, to int) []byte {
	if b == nil {
		return nil
	}
	return b[from*s.Width/8 : to*s.Width/8]
}

func BenchmarkSplit(b *testing.B) {
	eachBench(b, func(b *testing.B, s Spec, target, ref []byte) {
		ix := make([]uint16, benchN)
		var raw RawWriter
		raw.Reset(nil, nil)
		for b.Loop() {
			raw.Clear()
			s.Split(ix, target, ref, &raw)
		}
	})
}

func BenchmarkTokens(b *testing.B) {
	eachBench(b, func(b *testing.B, s Spec, target, ref []byte) {
		ix := make([]uint16, benchN)
		for b.Loop() {
			s.Tokens(ix, target, ref)
		}
	})
}

func BenchmarkClusters(b *testing.B) {
	eachBench(b, func(b *testing.B, s Spec, target, ref []byte) {
		dst, contextMap := make([]uint8, 4096), make([]uint8, s.Contexts())
		for b.Loop() {
			for a := 0; a < benchN; a += 4096 {
				s.Clusters(dst, sub(ref, &s, a, a+4096), contextMap)
			}
		}
	})
}

func BenchmarkJoin(b *testing.B) {
	eachBench(b, func(b *testing.B, s Spec, target, ref []byte) {
		ix, tokens := make([]uint16, benchN), make([]uint8, benchN)
		var w RawWriter
		w.Reset(nil, nil)
		s.Split(ix, target, ref, &w)
		for i, v := range ix {
			tokens[i] = uint8(v)
		}
		plane, tail := w.Finish()
		dst := make([]byte, len(target))
		var r RawReader
		for b.Loop() {
			r.Init(plane, tail)
			for a := 0; a < benchN; a += 4096 {
				if !s.Join(sub(dst, &s, a, a+4096), sub(ref, &s, a, a+4096), tokens[a:a+4096], &r) {
					b.Fatal("join")
				}
			}
		}
	})
}
