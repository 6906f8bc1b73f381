package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func histogramOf(ix []uint16, contexts, tokens int) *Histogram {
	h := new(Histogram)
	h.Reset(contexts, tokens)
	h.Add(ix)
	return h
}

func TestBuildAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 8))
	parametric, sloped, several := 0, 0, 0
	for i := range 120 {
		spec, ix := randomCase(rng)
		want := oracleBuild(denseCounts(ix, spec.Contexts(), spec.A), spec)
		got := Build(histogramOf(ix, spec.Contexts(), spec.A), spec)
		require.Equal(t, want.parametric, got.Parametric, "case %d %+v", i, spec)
		if got.Parametric {
			require.Equal(t, [3]int{want.shape, want.slope, want.scale}, [3]int{int(got.Shape), int(got.Slope), got.Scale}, "case %d %+v", i, spec)
			require.Equal(t, parametricLog, got.TableLog)
			parametric++
			sloped += int(got.Slope)
			continue
		}
		require.Equal(t, want.p, got.P)
		require.Equal(t, want.tableLog, got.TableLog)
		require.Equal(t, want.contextMap, got.ContextMap)
		require.Equal(t, want.codes, got.Codes)
		require.Equal(t, want.freq, got.Freq)
		if len(got.Freq) > 1 {
			several++
		}
	}
	// The cases must reach what they are for.
	assert.Greater(t, parametric, 20)
	assert.Greater(t, sloped, 1)
	assert.Greater(t, several, 5)
}

// 32 contexts with 60 tokens each, all different: the limit of 32 clusters and ties of the gain.
func TestBuildManyContexts(t *testing.T) {
	for _, shift := range []int{0, 3} {
		spec := ParamSpec{Map: 2, A: 256, ContextPart: 2}
		var ix []uint16
		for c := range 256 {
			for range 300 {
				ix = append(ix, uint16(c<<8|(c<<shift&255)))
			}
			ix = append(ix, uint16(c<<8|(c+1)&255))
		}
		want := oracleBuild(denseCounts(ix, 256, 256), spec)
		got := Build(histogramOf(ix, 256, 256), spec)
		require.Equal(t, want.contextMap, got.ContextMap)
		require.Equal(t, want.freq, got.Freq)
		assert.LessOrEqual(t, len(got.Freq), maxBuilt)
	}
}

func TestBuildThresholds(t *testing.T) {
	for n, p := range map[int]int{1<<13 - 1: 1, 1 << 13: 2, 1<<18 - 1: 2, 1 << 18: 3} {
		ix := make([]uint16, n)
		for i := range ix {
			ix[i] = uint16(i % 3 * 17) // no member of the family has three equal peaks far apart
		}
		got := Build(histogramOf(ix, 1, 60), ParamSpec{A: 60})
		require.False(t, got.Parametric)
		assert.Equal(t, p, got.P)
		// Three equally likely tokens are 1.58 bits a value, above 1.5.
		assert.Equal(t, 11, got.TableLog)
	}
	ix := make([]uint16, 1000)
	for i := range ix {
		ix[i] = uint16(i % 2 * 30) // 1 bit a value
	}
	assert.Equal(t, 12, Build(histogramOf(ix, 1, 60), ParamSpec{A: 60}).TableLog)
}

func TestBuildEmpty(t *testing.T) {
	for _, spec := range []ParamSpec{{A: 60, ContextPart: 1}, {Map: 2, A: 256, ContextPart: 2}, {Map: 1, T: 7, MantBits: 7, A: 2}} {
		got := Build(histogramOf(nil, spec.Contexts(), spec.A), spec)
		assert.Len(t, got.ContextMap, spec.Contexts())
		checkFrequencies(t, got, spec.A)
	}
}

func checkFrequencies(t *testing.T, tables *Tables, tokens int) {
	t.Helper()
	for _, freq := range tables.Freq {
		require.Len(t, freq, tokens)
		sum := 0
		for _, f := range freq {
			sum += int(f)
		}
		require.Equal(t, 1<<tables.TableLog, sum)
	}
	for _, k := range tables.ContextMap {
		require.Less(t, int(k), len(tables.Freq))
	}
}

// However the counts came together, the tables are the same, and every value that was counted can be coded.
func TestBuildDeterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 8))
	for range 40 {
		spec, ix := randomCase(rng)
		contexts := spec.Contexts()
		want := Build(histogramOf(ix, contexts, spec.A), spec)
		checkFrequencies(t, want, spec.A)
		for _, v := range ix {
			require.NotZero(t, want.Freq[want.ContextMap[v>>8]][v&255])
		}

		shuffled := slices.Clone(ix)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		cut := rng.IntN(len(ix) + 1)
		h := histogramOf(shuffled[:cut], contexts, spec.A)
		h.Merge(histogramOf(shuffled[cut:], contexts, spec.A))
		require.Equal(t, want, Build(h, spec))

		h.Reset(contexts, spec.A)
		for _, v := range shuffled {
			h.Add([]uint16{v})
		}
		require.Equal(t, want, Build(h, spec))
		require.Equal(t, want, Build(h, spec), "Build leaves the histogram alone")
	}
}

// codedBits is the ideal length of counts under the tables.
func codedBits(counts [][]uint64, tables *Tables) (bits float64) {
	for c, row := range counts {
		for s, n := range row {
			if n > 0 {
				f := tables.Freq[tables.ContextMap[c]][s]
				bits += float64(n) * (float64(tables.TableLog) - math.Log2(float64(f)))
			}
		}
	}
	return bits
}

// A geometric distribution over 40 tokens, P(s) proportional to 0.8^s, 2^20 values: entropy H = 3.6 bits. Weights have three
// mantissa bits, so a quantised probability is off by a factor 1 + d with d even in about +-1/18 (half a step of 1/8 .. 1/16):
// the loss is E[d^2] / (2 ln 2) = (1/18)^2 / 3 / 1.386 = 0.00074 bits. Frequencies of 2^11 are off by up to half a unit; over
// 40 tokens the loss is at most sum (0.5/2^11)^2 / (2 ln2 P(s)), dominated by the smallest P of 3.3e-5: below 0.005 bits, as
// max(1, ..) only rounds those up. In all at most 0.2 % of H.
func TestCodedSizeNearShannon(t *testing.T) {
	const n = 1 << 20
	var ix []uint16
	counts := make([]uint64, 40)
	norm := (1 - math.Pow(0.8, 40)) / 0.2
	for s := range counts {
		k := int(math.Round(n * math.Pow(0.8, float64(s)) / norm))
		counts[s] = uint64(k)
		ix = append(ix, slices.Repeat([]uint16{uint16(s)}, k)...)
	}
	entropy := 0.0
	for _, k := range counts {
		p := float64(k) / float64(len(ix))
		entropy -= float64(k) * math.Log2(p)
	}
	tables := Build(histogramOf(ix, 1, 60), ParamSpec{A: 60})
	require.Equal(t, 3, tables.P)
	bits := codedBits([][]uint64{counts}, tables)
	assert.GreaterOrEqual(t, bits, entropy)
	assert.LessOrEqual(t, bits, entropy*1.002)
	// The codes fall by log2(1/0.8) * 8 = 2.6 a token, so by 2 or 3: a difference costs a zero flag of little, "not the same",
	// a sign of little and a gamma code of 1 or 2, some 4 bits; 40 of them 20 bytes, and as many again to learn the contexts.
	assert.Less(t, len(tables.WriteSide()), 40)
}

// Exact exponential data of 1,000 values should need parametric tables, and cost close to its entropy.
func TestParametricNearShannon(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	spec := ParamSpec{A: 60}
	counts := denseCounts(nil, 1, 60)
	h := new(Histogram)
	h.Reset(1, 60)
	for range 1000 {
		y := uint64(rng.ExpFloat64() * 300)
		tail := max(int(math.Log2(float64(max(y, 1))))-2, 0)
		s := 4*tail + int(y>>tail)
		counts[0][s]++
		h.AddCount(0, s, 1)
	}
	tables := Build(h, spec)
	require.True(t, tables.Parametric)
	entropy := 0.0
	for _, k := range counts[0] {
		if k > 0 {
			entropy -= float64(k) * math.Log2(float64(k)/1000)
		}
	}
	// The counts of about 30 tokens that occur are themselves 29 parameters fitted to the data, worth 1 / (2 ln 2) = 0.72 bits
	// each: 21 bits. Scales are steps of sqrt 2, so the scale is off by up to 2^(1/4): a loss of (ln 2^(1/4))^2 / (2 ln 2) =
	// 0.022 bits a value at most. 1 of 4096 goes to each of 60 tokens: log2(4096 / 4036) = 0.021 bits a value.
	assert.LessOrEqual(t, codedBits(counts, tables), entropy+21+1000*(0.022+0.021)+30)
	// Own tables would have cost 30 * 3 bits and 36 more.
	assert.Less(t, codedBits(counts, tables)+16, entropy+30*3+36)
}
