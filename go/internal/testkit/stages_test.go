package testkit_test

import (
	"testing"
	"time"

	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// stage is the best time of a step over all repeats: what an undisturbed processor takes.
type stage struct {
	name string
	run  func()
	best time.Duration
}

func (s *stage) time() {
	start := time.Now()
	s.run()
	if d := time.Since(start); s.best == 0 || d < s.best {
		s.best = d
	}
}

// BenchmarkStages codes one chunk step by step and reports each step in ns per value, and what they add up to.
func BenchmarkStages(b *testing.B) {
	const n, piece = 1 << 18, 4096
	bf16 := transform.Spec{Width: 16, Float: true, ExpBits: 8, MantBits: 7, Predictor: 1, ContextPart: 1, ExpBase: 100}
	f16 := transform.Spec{Width: 16, Float: true, ExpBits: 5, MantBits: 10, Predictor: 1, ContextPart: 1}
	f32 := transform.Spec{Width: 32, Float: true, ExpBits: 8, MantBits: 23, Predictor: 1, ContextPart: 1, ExpBase: 100, K: 16}
	for _, c := range []struct {
		name string
		spec transform.Spec
	}{{"bf16", bf16}, {"f16", f16}, {"f32", f32}} {
		b.Run(c.name, func(b *testing.B) {
			testkit.BenchKernel(b, func(b *testing.B) { stages(b, c.spec, n, piece) })
		})
	}
}

func stages(b *testing.B, s transform.Spec, n, piece int) {
	target, ref := testkit.Float(n, s.Width, s.ExpBits, s.MantBits, 0.02, 1)
	lane := s.Width / 8
	ix, tokens, clusters, dst := make([]uint16, n), make([]uint8, n), make([]uint8, n), make([]byte, len(target))
	var w transform.RawWriter
	w.Reset(nil, nil)
	w.Reserve(&s, n)
	var h model.Histogram
	h.Reset(s.Contexts(), s.Alphabet())
	s.Split(ix, target, ref, &w)
	h.Add(ix)
	tables := model.Build(&h, model.ParamSpec{Map: s.Map, K: s.K, T: s.T, MantBits: s.MantBits, ContextPart: s.ContextPart, A: s.Alphabet()})
	var enc rans.EncTables
	var dec rans.DecTables
	enc.Build(tables.Freq, tables.TableLog)
	dec.Build(tables.Freq, tables.TableLog)
	buf := make([]byte, 2*n)
	var states [rans.MaxLanes]uint32
	words := enc.Encode(ix, tables.ContextMap, 64, buf, states[:])

	var lanes rans.Decoder
	var raw transform.RawReader
	blocks := func(f func(from, to int) bool) func() {
		return func() {
			for a := 0; a < n; a += piece {
				if !f(a, a+piece) {
					b.Fatal("damaged")
				}
			}
		}
	}
	encode := []*stage{
		{name: "split", run: func() { w.Clear(); s.Split(ix, target, ref, &w) }},
		{name: "histogram", run: func() { h.Reset(s.Contexts(), s.Alphabet()); h.Add(ix) }},
		{name: "rans-encode", run: func() { words = enc.Encode(ix, tables.ContextMap, 64, buf, states[:]) }},
	}
	decode := []*stage{
		{name: "clusters", run: blocks(func(from, to int) bool {
			s.Clusters(clusters[from:to], ref[from*lane:to*lane], tables.ContextMap)
			return true
		})},
		{name: "rans-decode", run: blocks(func(from, to int) bool {
			if from == 0 {
				lanes = rans.Decoder{States: states, Lanes: 64, Words: words}
			}
			return dec.Decode(tokens[from:to], clusters[from:to], &lanes)
		})},
		{name: "join", run: blocks(func(from, to int) bool {
			if from == 0 {
				raw.Init(w.Finish())
			}
			return s.Join(dst[from*lane:to*lane], ref[from*lane:to*lane], tokens[from:to], &raw)
		})},
	}
	memcpy := &stage{name: "memcpy", run: func() { copy(dst, target) }}
	for b.Loop() {
		for _, st := range append(append(encode, decode...), memcpy) {
			st.time()
		}
	}
	if !lanes.Finished() || !raw.Done() || string(dst) != string(target) {
		b.Fatal("the chunk did not come back")
	}
	total := func(name string, list []*stage) {
		sum := time.Duration(0)
		for _, st := range list {
			b.ReportMetric(float64(st.best.Nanoseconds())/float64(n), st.name+"-ns/value")
			sum += st.best
		}
		b.ReportMetric(float64(len(target))/float64(sum.Nanoseconds()), name+"-GB/s")
		b.ReportMetric(float64(sum)/float64(memcpy.best), name+"-x-memcpy")
	}
	total("encode", encode)
	total("decode", decode)
	b.ReportMetric(0, "ns/op")
}
