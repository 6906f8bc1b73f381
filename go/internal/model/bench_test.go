package model

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// tokens of hybrid-uint values (section 8) that fall off from a scale for each context.
func sampleIndexes(rng *rand.Rand, n, contexts int) []uint16 {
	ix := make([]uint16, n)
	for i := range ix {
		c := min(int(rng.ExpFloat64()*float64(contexts)/8), contexts-1)
		y := uint64(rng.ExpFloat64() * float64(int(1)<<(uint(8-c*8/contexts))))
		n := max(bits.Len64(y)-3, 0)
		ix[i] = uint16(c<<8 | (4*n + int(y>>n)))
	}
	return ix
}

func spec16(contextPart uint8) ParamSpec {
	return ParamSpec{Map: 0, MantBits: 7, ContextPart: contextPart, A: 60}
}

func BenchmarkAdd(b *testing.B) {
	ix := sampleIndexes(rand.New(rand.NewPCG(1, 2)), 1<<18, 32)
	var h Histogram
	h.Reset(32, 60)
	b.SetBytes(int64(len(ix)) * 2)
	for b.Loop() {
		h.Add(ix)
	}
}

func BenchmarkHistogramSmall(b *testing.B) {
	ix := sampleIndexes(rand.New(rand.NewPCG(1, 2)), 1000, 32)
	var h Histogram
	for b.Loop() {
		h.Reset(32, 60)
		h.Add(ix)
		h.list()
	}
}

func benchmarkBuild(b *testing.B, n, contexts int, spec ParamSpec) {
	ix := sampleIndexes(rand.New(rand.NewPCG(1, 2)), n, contexts)
	var h Histogram
	h.Reset(contexts, spec.A)
	h.Add(ix)
	b.ReportAllocs()
	var t *Tables
	for b.Loop() {
		h.listed = false
		t = Build(&h, spec)
	}
	cells, _ := h.list()
	b.ReportMetric(float64(len(cells)), "cells")
	b.ReportMetric(float64(len(t.Freq)), "clusters")
}

func BenchmarkBuild1000(b *testing.B)           { benchmarkBuild(b, 1000, 32, spec16(1)) }
func BenchmarkBuild16384(b *testing.B)          { benchmarkBuild(b, 16384, 32, spec16(1)) }
func BenchmarkBuild1M(b *testing.B)             { benchmarkBuild(b, 1<<20, 32, spec16(1)) }
func BenchmarkBuild1000OneContext(b *testing.B) { benchmarkBuild(b, 1000, 1, spec16(0)) }
func BenchmarkBuild1000Map1(b *testing.B) {
	benchmarkBuild(b, 1000, 1, ParamSpec{Map: 1, T: 6, MantBits: 7, Base: 40, A: 60})
}
func BenchmarkBuild1000Bytes(b *testing.B) {
	benchmarkBuild(b, 1000, 256, ParamSpec{Map: 2, ContextPart: 2, A: 256})
}
func BenchmarkBuild1MBytes(b *testing.B) {
	benchmarkBuild(b, 1<<20, 256, ParamSpec{Map: 2, ContextPart: 2, A: 256})
}

func BenchmarkBuildDense(b *testing.B) {
	var ix []uint16
	rng := rand.New(rand.NewPCG(1, 2))
	for c := range 32 {
		for t := range 60 {
			for range 20 + rng.IntN(30) {
				ix = append(ix, uint16(c<<8|t))
			}
		}
	}
	var h Histogram
	h.Reset(32, 60)
	h.Add(ix)
	for b.Loop() {
		h.listed = false
		Build(&h, spec16(1))
	}
}

func BenchmarkSide(b *testing.B) {
	ix := sampleIndexes(rand.New(rand.NewPCG(1, 2)), 1<<20, 32)
	var h Histogram
	h.Reset(32, 60)
	h.Add(ix)
	t := Build(&h, spec16(1))
	var side []byte
	b.Run("Write", func(b *testing.B) {
		for b.Loop() {
			side = t.WriteSide()
		}
		b.ReportMetric(float64(len(side)), "bytes")
	})
	b.Run("Read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadSide(side, 32, 60, t.TableLog); err != nil {
				b.Fatal(err)
			}
		}
	})
}
