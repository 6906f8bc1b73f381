package rans

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/testkit"
)

type setup struct {
	clusters, contexts, alphabet, tableLog, lanes int
}

func (s setup) String() string {
	return fmt.Sprintf("q%d/c%d/A%d/log%d/lanes%d", s.clusters, s.contexts, s.alphabet, s.tableLog, s.lanes)
}

// setups covers every lane count and tableLog, with the sizes of the hot cases first.
func setups() (out []setup) {
	for _, lanes := range []int{1, 4, 16, 64} {
		for _, tableLog := range []int{8, 9, 10, 11, 12} {
			out = append(out, setup{5, 32, 60, tableLog, lanes}, setup{1, 1, 2, tableLog, lanes})
		}
		out = append(out, setup{32, 32, 60, 12, lanes}, setup{64, 256, 256, 12, lanes}, setup{4, 256, 256, 8, lanes}, setup{3, 32, 92, 11, lanes},
			setup{1, 1, 129, 12, lanes}, setup{7, 32, 252, 12, lanes}, setup{2, 32, 28, 11, lanes})
	}
	return out
}

func contextMapOf(s setup) []uint8 {
	m := make([]uint8, s.contexts)
	for c := range m {
		m[c] = uint8(c * s.clusters / s.contexts)
	}
	return m
}

func check(t *testing.T, s setup, n, block int) {
	t.Helper()
	freq := tables(s.clusters, s.alphabet, s.tableLog, uint64(n))
	contextMap := contextMapOf(s)
	ix := symbols(n, contextMap, freq, s.tableLog, uint64(n)+1)
	wantStates, wantWords := oracleEncode(ix, contextMap, freq, s.tableLog, s.lanes)

	var enc EncTables
	enc.Build(freq, s.tableLog)
	buf := testkit.Guard(2*n, 2, 0xee)
	states := make([]uint32, s.lanes)
	words := enc.Encode(ix, contextMap, s.lanes, buf.Bytes(), states)
	buf.Check(t)
	require.Equal(t, string(wantWords), string(words))
	require.Equal(t, wantStates, states)

	var tab DecTables
	tab.Build(freq, s.tableLog)
	var dec Decoder
	stateBytes := make([]byte, 4*s.lanes)
	for i, x := range states {
		binary.LittleEndian.PutUint32(stateBytes[4*i:], x)
	}
	require.True(t, dec.Init(s.lanes, stateBytes, append(make([]byte, 0, len(words)), words...)))
	clusters := make([]uint8, n)
	for i, v := range ix {
		clusters[i] = contextMap[v>>8]
	}
	tokens := testkit.Guard(n, 1, 0xee)
	out := tokens.Bytes()
	for a := 0; a < n; a += block {
		b := min(a+block, n)
		require.True(t, tab.Decode(out[a:b:b], clusters[a:b:b], &dec))
		require.Equal(t, b%s.lanes, dec.Lane)
	}
	tokens.Check(t)
	for i, v := range ix {
		require.Equal(t, uint8(v), out[i], i)
	}
	require.True(t, dec.Finished())
}

func TestRoundTrip(t *testing.T) { testkit.EachKernel(t, testRoundTrip) }

func testRoundTrip(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.String(), func(t *testing.T) {
			for _, n := range []int{1, 100, 1000, 5000} {
				check(t, s, n, n)
				check(t, s, n, 77)
			}
			check(t, s, 9000, 4096)
		})
	}
}

func TestLengths(t *testing.T) { testkit.EachKernel(t, testLengths) }

func testLengths(t *testing.T) {
	for _, lanes := range []int{1, 4, 16, 64} {
		for n := 0; n <= 300; n++ {
			check(t, setup{5, 32, 60, 11, lanes}, n, max(n, 1))
			check(t, setup{5, 32, 60, 11, lanes}, n, 64)
		}
	}
}

// Every truncation of the words is noticed: words run out, or the end check fails. Nothing beyond the words is read.
func TestTruncated(t *testing.T) { testkit.EachKernel(t, testTruncated) }

func testTruncated(t *testing.T) {
	for _, lanes := range []int{1, 4, 16, 64} {
		s := setup{5, 32, 60, 12, lanes}
		freq, contextMap := tables(s.clusters, s.alphabet, s.tableLog, 3), contextMapOf(s)
		ix := symbols(700, contextMap, freq, s.tableLog, 4)
		var enc EncTables
		enc.Build(freq, s.tableLog)
		states := make([]uint32, lanes)
		words := enc.Encode(ix, contextMap, lanes, make([]byte, 1400), states)
		var tab DecTables
		tab.Build(freq, s.tableLog)
		clusters, tokens := make([]uint8, len(ix)), make([]uint8, len(ix))
		for i, v := range ix {
			clusters[i] = contextMap[v>>8]
		}
		for n := 0; n < len(words); n += 2 {
			dec := Decoder{Lanes: lanes, Words: append(make([]byte, 0, n), words[:n]...)}
			copy(dec.States[:], states)
			ok := tab.Decode(tokens, clusters, &dec)
			_, _, _, want := oracleDecode(clusters, freq, s.tableLog, lanes, states, words[:n])
			require.Equal(t, want, ok, n)
			require.False(t, ok && dec.Finished())
		}
		dec := Decoder{Lanes: lanes, Words: append(append([]byte(nil), words...), 0, 0)}
		copy(dec.States[:], states)
		require.True(t, tab.Decode(tokens, clusters, &dec))
		require.False(t, dec.Finished())
	}
}

// Streams that no encoder made decode like the oracle says, in every block length.
func TestHostileWords(t *testing.T) { testkit.EachKernel(t, testHostileWords) }

func testHostileWords(t *testing.T) {
	for _, s := range setups() {
		rng := testkit.Rand(uint64(s.lanes + s.tableLog))
		freq := tables(s.clusters, s.alphabet, s.tableLog, 5)
		n := 1 + rng.IntN(3000)
		words := make([]byte, 2*rng.IntN(2*n))
		for i := range words {
			words[i] = byte(rng.Uint32())
		}
		clusters := make([]uint8, n)
		for i := range clusters {
			clusters[i] = uint8(rng.IntN(s.clusters))
		}
		states := make([]uint32, s.lanes)
		for i := range states {
			states[i] = L + rng.Uint32N(stateLimit-L)
			if i%3 == 0 {
				states[i] = []uint32{L, stateLimit - 1}[rng.IntN(2)]
			}
		}
		want, wantStates, left, wantOK := oracleDecode(clusters, freq, s.tableLog, s.lanes, states, words)
		var tab DecTables
		tab.Build(freq, s.tableLog)
		for _, block := range []int{n, 64, 128, 1, 1000} {
			dec := Decoder{Lanes: s.lanes, Words: words}
			copy(dec.States[:], states)
			tokens := make([]uint8, n)
			ok := true
			for a := 0; a < n && ok; a += block {
				b := min(a+block, n)
				ok = tab.Decode(tokens[a:b], clusters[a:b], &dec)
			}
			require.Equal(t, wantOK, ok, "%s block %d", s, block)
			if ok {
				require.Equal(t, want, tokens)
				require.Equal(t, wantStates, dec.States[:s.lanes])
				require.Equal(t, len(left), len(dec.Words))
			}
		}
	}
}

// A cluster beyond the tables must not lead out of memory.
func TestUnknownCluster(t *testing.T) { testkit.EachKernel(t, testUnknownCluster) }

func testUnknownCluster(t *testing.T) {
	for _, clusters := range []int{1, 2, 3, 5, 33, 64} {
		var tab DecTables
		tab.Build(tables(clusters, 60, 12, 1), 12)
		for _, lanes := range []int{1, 4, 16, 64} {
			dec := Decoder{Lanes: lanes, Words: make([]byte, 20000)}
			for i := range dec.States {
				dec.States[i] = stateLimit - 1
			}
			in := make([]uint8, 1024)
			for i := range in {
				in[i] = uint8(i)
			}
			tab.Decode(make([]uint8, 1024), in, &dec)
		}
	}
}

func TestInit(t *testing.T) {
	var dec Decoder
	for x, good := range map[uint32]bool{0: false, L - 1: false, L: true, stateLimit - 1: true, stateLimit: false, 1<<32 - 1: false} {
		for at := range 4 {
			states := make([]byte, 16)
			for i := range 4 {
				binary.LittleEndian.PutUint32(states[4*i:], L+1)
			}
			binary.LittleEndian.PutUint32(states[4*at:], x)
			assert.Equal(t, good, dec.Init(4, states, make([]byte, 6)))
			assert.False(t, dec.Init(4, states, make([]byte, 7)))
		}
	}
}

func TestFinished(t *testing.T) {
	dec := Decoder{Lanes: 4}
	for i := range dec.States {
		dec.States[i] = L
	}
	assert.True(t, dec.Finished())
	dec.Words = make([]byte, 2)
	assert.False(t, dec.Finished())
	dec.Words = nil
	dec.States[3]++
	assert.False(t, dec.Finished())
	dec.States[3]--
	dec.States[4]++ // not a lane
	assert.True(t, dec.Finished())
}

// The reciprocals divide exactly: every frequency, at the states around multiples of it and at the limits.
func TestReciprocals(t *testing.T) {
	rng := testkit.Rand(8)
	for _, tableLog := range []int{8, 11, 12} {
		m := 1 << tableLog
		for f := 1; f < m; f++ {
			var e EncTables
			e.Build([][]uint16{{uint16(m - f), uint16(f)}}, tableLog)
			limit := uint32(f) << (31 - tableLog)
			for range 20 {
				q := rng.Uint32N(limit / uint32(f))
				for _, x := range []uint32{q * uint32(f), q*uint32(f) + uint32(f) - 1, limit - 1, limit - uint32(f)} {
					rcp, packed := e.entries[1]&(1<<32-1), uint32(e.entries[1]>>32)
					q := uint32(uint64(x)*rcp>>32) >> (packed >> 25)
					got := x + packed>>12&8191 + q*uint32(m-f)
					if x == 0 && f == 1 { // x - 1 is below zero; states are never 0
						continue
					}
					require.Equal(t, x/uint32(f)<<tableLog+x%uint32(f)+uint32(m-f), got, "f %d x %d", f, x)
				}
			}
		}
	}
}

// The length of the words is what Shannon asks: with M = 4096 and p = 1/2 a symbol costs one bit, and 64 states hold 31 - 15 bits each
// at most beyond that.
func TestLength(t *testing.T) {
	freq := [][]uint16{{2048, 2048}}
	ix := make([]uint16, 1<<16)
	rng := testkit.Rand(6)
	for i := range ix {
		ix[i] = uint16(rng.IntN(2))
	}
	var e EncTables
	e.Build(freq, 12)
	words := e.Encode(ix, []uint8{0}, 64, make([]byte, 2*len(ix)), make([]uint32, 64))
	assert.InDelta(t, 1<<16/8, len(words), 64*2)
}

func TestNoAllocation(t *testing.T) { testkit.EachKernel(t, testNoAllocation) }

func testNoAllocation(t *testing.T) {
	freq := tables(5, 60, 11, 1)
	contextMap := make([]uint8, 32)
	ix := symbols(4096, contextMap, freq, 11, 2)
	var e EncTables
	var d DecTables
	e.Build(freq, 11)
	d.Build(freq, 11)
	buf, tokens, clusters := make([]byte, 8192), make([]uint8, 4096), make([]uint8, 4096)
	var states [64]uint32
	var dec Decoder
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		e.Build(freq, 11)
		d.Build(freq, 11)
		words := e.Encode(ix, contextMap, 64, buf, states[:])
		dec.States, dec.Lanes, dec.Lane, dec.Words = states, 64, 0, words
		if !d.Decode(tokens, clusters, &dec) {
			panic("decode")
		}
	}))
}
