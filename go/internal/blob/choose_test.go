package blob

import (
	"bytes"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/internal/transform"
)

// literalSample is the sample of section 21, lane value by lane value.
func literalSample(b []byte, laneBytes int) []byte {
	m := len(b) / laneBytes
	if m <= 8192 {
		return b
	}
	var s []byte
	for run := range 64 {
		start := run * (m - 128) / 63
		for i := range 128 {
			s = append(s, b[(start+i)*laneBytes:(start+i+1)*laneBytes]...)
		}
	}
	return s
}

// literalEstimate is the estimate of section 21, written down as it is there.
func literalEstimate(spec transform.Spec, target, ref []byte, m uint64) uint64 {
	laneBytes := spec.Width / 8
	n := len(target) / laneBytes
	ix := make([]uint16, n)
	spec.Tokens(ix, target, ref)
	cells := map[uint16]uint64{}
	totals := map[uint16]uint64{}
	raw := uint64(0)
	for _, v := range ix {
		cells[v]++
		totals[v>>8]++
		switch spec.Map {
		case mapHybrid:
			raw += uint64(spec.K) + uint64(max(int(v&255)>>2-1, 0))
		case mapLeading:
			if v&255 != 0 {
				raw += uint64(spec.T-spec.K) + uint64(spec.K)
			}
		}
	}
	estimate := 65536 * raw
	for _, count := range totals {
		estimate += model.XLog(count)
	}
	for _, count := range cells {
		estimate -= model.XLog(count)
	}
	hi, lo := bits.Mul64(estimate, m)
	scaled, _ := bits.Div64(hi, lo, uint64(n))
	return scaled + 65536*8*uint64(len(cells))
}

// literalCandidates are R (if there is a reference) and N of section 21 with their estimates.
func literalCandidates(g *Geometry, target, ref []byte) (specs []transform.Spec, estimates []uint64) {
	laneBytes := g.laneBytes()
	m := uint64(len(target) / laneBytes)
	sampleTarget, sampleRef := literalSample(target, laneBytes), []byte(nil)
	add := func(spec transform.Spec, r []byte) {
		widest := 0
		if spec.Map == mapHybrid && spec.Width == 32 {
			widest = 16
		} else if spec.Map == mapHybrid && spec.Width == 64 {
			widest = 48
		}
		if spec.Map == mapLeading {
			specs = append(specs, spec)
			estimates = append(estimates, literalEstimate(spec, sampleTarget, r, m))
			return
		}
		var all []uint64
		for k := 0; k <= widest; k += 8 {
			spec.K = k
			all = append(all, literalEstimate(spec, sampleTarget, r, m))
		}
		least := all[0]
		for _, e := range all {
			least = min(least, e)
		}
		for i, e := range all {
			if e <= least+least>>10 {
				spec.K = 8 * i
			}
		}
		specs = append(specs, spec)
		estimates = append(estimates, all[spec.K/8])
	}
	if ref != nil {
		sampleRef = literalSample(ref, laneBytes)
		spec := specFor(&g.DType)
		spec.Predictor = predictReference
		switch {
		case spec.Width == 8:
			spec.Map, spec.ContextPart = mapDirect, contextByte
		case spec.Float:
			spec.ContextPart = contextExponent
			top := uint64(0)
			for i := range len(sampleRef) / laneBytes {
				top = max(top, testkit.Lane(sampleRef, i, spec.Width)>>spec.MantBits&(1<<spec.ExpBits-1))
			}
			spec.ExpBase = uint32(max(0, int(top)-29))
		}
		add(spec, sampleRef)
	}
	spec := specFor(&g.DType)
	switch {
	case spec.Width == 8:
		spec.Map = mapDirect
	case spec.Float:
		literalLeading(&spec, sampleTarget)
	}
	add(spec, nil)
	return specs, estimates
}

// literalLeading sets token map 1 for the values in b, as section 21 says.
func literalLeading(s *transform.Spec, b []byte) {
	s.Map = mapLeading
	zs := make([]uint64, len(b)/(s.Width/8))
	s.Zs(zs, b, nil)
	for s.T = s.MantBits - 1; ; s.T++ {
		lo, hi, any := uint64(0), uint64(0), false
		for _, z := range zs {
			if z == 0 {
				continue
			}
			v := z >> s.T
			if !any || v < lo {
				lo = v
			}
			hi = max(hi, v)
			any = true
		}
		if hi-lo+2 <= 256 {
			s.Base, s.A = lo, int(hi-lo+2)
			break
		}
	}
	s.K = min(s.T/8*8, 48)
	if s.Width == 16 {
		s.K = 0
	}
}

func TestChooseIsThatOfTheSpecification(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	plain, with := 0, 0
	for _, d := range append(dtype.All(), dtype.Named("rgb", 3)) {
		for _, n := range []int{2, 50, 3000, 8192, 9001} {
			for _, wild := range []bool{false, true} {
				target, ref := pair(d, n, wild, uint64(n))
				if n == 3000 { // an unrelated reference, and many zeros
					_, ref = pair(d, n, wild, 77)
					clear(target[len(target)/2:])
				}
				for _, r := range [][]byte{ref, nil} {
					g := vector(t, d, n)
					e := NewEncoder(Input{Geometry: g, Target: target, Ref: r, Fast: true}, 1)
					e.Choose(s)
					if e.plan != PlanCoded {
						continue
					}
					specs, estimates := literalCandidates(&g, target, r)
					want := specs[0]
					if len(specs) == 2 && estimates[1] < estimates[0] {
						want = specs[1]
					}
					require.Equal(t, want, e.head.spec, "%s, %d elements, wild %t", d.Name, n, wild)
					if want.Predictor == predictNothing {
						plain++
					} else {
						with++
					}

					e.Scan(0, 0, s)
					e.Build()
					if want.Map == mapLeading {
						literalLeading(&want, target)
					}
					require.Equal(t, want, e.head.spec, "%s, %d elements: after the whole tensor was counted", d.Name, n)
					body := e.AppendBody(nil, 0, s)
					e.Settle([]uint64{uint64(len(body))})
				}
			}
		}
	}
	assert.Greater(t, plain, 50)
	assert.Greater(t, with, 50)
}

// A range of exponents for which the leading bits have to be cut at a higher bit.
func TestLeadingRange(t *testing.T) {
	for _, code := range []uint8{1, 2, 3, 4, 25, 26, 27} {
		d := lookup(t, code)
		for _, exponents := range [][2]int{{0, 0}, {3, 3}, {1, 1<<d.ExpBits - 1}, {0, 1<<d.ExpBits - 1}, {10, 10 + 1<<(d.ExpBits-1)}} {
			b := make([]byte, 4096*d.Width/8)
			rng := testkit.Rand(uint64(code))
			for i := range 4096 {
				e := uint64(exponents[0]) + rng.Uint64N(uint64(exponents[1]-exponents[0]+1))
				v := e<<d.MantBits | rng.Uint64()&(1<<d.MantBits-1) | rng.Uint64N(2)<<(d.Width-1)
				if i%9 == 0 {
					v = 0
				}
				testkit.PutLane(b, i, d.Width, v)
			}
			want := specFor(&d)
			literalLeading(&want, b)

			got := specFor(&d)
			got.Map = mapLeading
			var c, other leadingCount
			var h model.Histogram
			c.reset(&got, 1)
			other.reset(&got, 1)
			c.add(&got, b[:len(b)/4], nil)
			other.add(&got, b[len(b)/4:], nil)
			c.merge(&other)
			c.settle(&got, &h)
			require.Equal(t, want, got, d.Name)

			ix := make([]uint16, 4096)
			want.Tokens(ix, b, nil)
			var literal model.Histogram
			literal.Reset(1, want.A)
			literal.Add(ix)
			for token := range want.A {
				require.Equal(t, literal.Count(0, token), h.Count(0, token), "%s, token %d", d.Name, token)
			}
			assert.Equal(t, literal.Total(), h.Total())
		}
	}
}

func TestCoarsenedTokens(t *testing.T) {
	for _, code := range []uint8{19, 3, 21, 4, 23} {
		d := lookup(t, code)
		target, ref := pair(d, 5000, true, 1)
		near, nearRef := pair(d, 5000, false, 2)
		target, ref = append(target, near...), append(ref, nearRef...)
		spec := specFor(&d)
		spec.Predictor = predictReference
		ix, want := make([]uint16, 10000), make([]uint16, 10000)
		spec.Tokens(ix, target, ref)
		for spec.K = 8; spec.K < spec.Width && spec.K <= maxPlane; spec.K += 8 {
			coarsen(ix)
			spec.Tokens(want, target, ref)
			require.Equal(t, want, ix, "%s, K = %d", d.Name, spec.K)
		}
	}
}

func TestLanesAndChunkKinds(t *testing.T) {
	for _, c := range [][2]int{{1, 0}, {1023, 0}, {1024, 1}, {16383, 1}, {16384, 2}, {131071, 2}, {131072, 3}, {1 << 18, 3}} {
		assert.EqualValues(t, c[1], laneCode(c[0]), c[0])
	}
	s := GetScratch()
	defer s.Release()
	d := lookup(t, 1)
	n := 4 * dtype.ChunkElements
	target, ref := pair(d, n, false, 1)
	copy(target[1<<19:1<<20], ref[1<<19:1<<20]) // the second chunk is unchanged
	rng := testkit.Rand(1)
	for i := range dtype.ChunkElements { // the third cannot be coded
		testkit.PutLane(target[1<<20:], i, 16, rng.Uint64())
	}
	e := NewEncoder(Input{Geometry: vector(t, d, n), Target: target, Ref: ref}, 1)
	e.Choose(s)
	for j := range e.Chunks() {
		e.Scan(j, 0, s)
	}
	e.Build()
	kinds := make([]byte, 0, 4)
	for j := range e.Chunks() {
		body := e.AppendBody(nil, j, s)
		kinds = append(kinds, body[0])
	}
	assert.Equal(t, []byte{bodyCoded | 3<<bodyKindBits, bodyUnchanged, bodyStored, bodyCoded | 3<<bodyKindBits}, kinds)
}

// The small and the large path write the same bytes, but for what is stored: the one knows the coded size, the other judges
// ahead by the counts.
func TestSmallAndLargePathAgree(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	compared := 0
	for _, d := range append(dtype.All(), dtype.Named("rgb", 3)) {
		for _, n := range []int{0, 1, 500, 8192, 8193, d.ChunkElems() + 1} {
			for _, wild := range []bool{false, true} {
				for _, withRef := range []bool{true, false} {
					target, ref := pair(d, n, wild, uint64(n))
					if !withRef {
						ref = nil
					}
					g := vector(t, d, n)
					in := Input{Geometry: g, Target: target, Ref: ref}
					small, result := s.Encode(nil, in, func(b []byte, _ Result) []byte { return b })

					large, e := encodeLarge(s, in)
					if result.Plan != e.Plan() {
						require.Contains(t, []uint8{result.Plan, e.Plan()}, uint8(PlanStored))
						require.LessOrEqual(t, e.NBytes(), g.NBytes()+g.NBytes()>>7+1024)
						continue
					}
					compared++
					require.True(t, bytes.Equal(small, large), "%s, %d elements, wild %t, reference %t", d.Name, n, wild, withRef)
					require.Equal(t, result, e.Result())
					require.EqualValues(t, len(large), e.NBytes())
				}
			}
		}
	}
	assert.Greater(t, compared, 300)
}

// encodeLarge codes a tensor of any size as a large one is coded, by several workers.
func encodeLarge(s *Scratch, in Input) ([]byte, *Encoder) {
	e := NewEncoder(in, 3)
	e.small = false
	e.Choose(s)
	e.tried = nil // as if the tensor were larger than its sample
	if IsCoded(e.plan) && e.head.spec.Map == mapLeading {
		e.open = true
	}
	for j := range e.Chunks() {
		e.Scan(j, j%3, s)
	}
	e.Build()
	var bodies [][]byte
	var lengths []uint64
	if e.Coded() {
		for j := range e.Chunks() {
			bodies = append(bodies, e.AppendBody(nil, j, s))
			lengths = append(lengths, uint64(len(bodies[j])))
		}
	}
	e.Settle(lengths)
	b := e.AppendHead(nil)
	for j := range e.Chunks() {
		switch {
		case e.Plan() == PlanStored:
			b = append(b, e.Raw(j)...)
		case IsCoded(e.Plan()):
			b = append(e.AppendBodyPrefix(b, len(bodies[j])), bodies[j]...)
		}
	}
	return e.AppendFoot(b), e
}
