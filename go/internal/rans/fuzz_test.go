package rans

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/cpu"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// FuzzDecode decodes arbitrary states and words with every kernel set, in blocks of any length, and compares with the oracle.
func FuzzDecode(f *testing.F) {
	for i := range len(setups()) {
		f.Add(uint16(i), uint16(900+i), uint16(64+i), uint64(i), make([]byte, 700+i))
	}
	f.Fuzz(func(t *testing.T, which, n, block uint16, seed uint64, words []byte) {
		all := setups()
		s := all[int(which)%len(all)]
		count, piece := int(n)%4096, max(int(block), 1)
		words = words[:len(words)&^1]
		freq := tables(s.clusters, s.alphabet, s.tableLog, seed)
		rng := testkit.Rand(seed)
		clusters := make([]uint8, count)
		for i := range clusters {
			clusters[i] = uint8(rng.IntN(s.clusters))
		}
		states := make([]uint32, s.lanes)
		for i := range states {
			states[i] = L + rng.Uint32N(stateLimit-L)
		}
		want, wantStates, left, wantOK := oracleDecode(clusters, freq, s.tableLog, s.lanes, states, words)
		var tab DecTables
		tab.Build(freq, s.tableLog)
		for _, set := range testkit.KernelSets() {
			restore := cpu.Use(set)
			out := testkit.Guard(count, int(seed%64), 0)
			dec := Decoder{Lanes: s.lanes, Words: append(make([]byte, 0, len(words)), words...)}
			copy(dec.States[:], states)
			ok := true
			for a := 0; a < count && ok; a += piece {
				b := min(a+piece, count)
				ok = tab.Decode(out.Bytes()[a:b:b], clusters[a:b:b], &dec)
			}
			restore()
			out.Check(t)
			require.Equal(t, wantOK, ok)
			if ok {
				require.Equal(t, string(want), string(out.Bytes()))
				require.Equal(t, wantStates, dec.States[:s.lanes])
				require.Len(t, dec.Words, len(left))
			}
		}
	})
}

// FuzzRoundTrip encodes arbitrary symbols with every kernel set, which must give the oracle's bytes, and decodes them again.
func FuzzRoundTrip(f *testing.F) {
	for i := range len(setups()) {
		f.Add(uint16(i), uint64(i), make([]byte, 1500+i))
	}
	f.Fuzz(func(t *testing.T, which uint16, seed uint64, data []byte) {
		all := setups()
		s := all[int(which)%len(all)]
		freq, contextMap := tables(s.clusters, s.alphabet, s.tableLog, seed), contextMapOf(s)
		n := min(len(data)/2, 6000)
		ix, clusters := make([]uint16, n), make([]uint8, n)
		for i := range ix {
			v := binary.LittleEndian.Uint16(data[2*i:])
			c := int(v>>8) % s.contexts
			clusters[i] = contextMap[c]
			row := freq[contextMap[c]]
			token := int(v&255) % s.alphabet
			for row[token] == 0 {
				token = (token + 1) % s.alphabet
			}
			ix[i] = uint16(c<<8 | token)
		}
		wantStates, wantWords := oracleEncode(ix, contextMap, freq, s.tableLog, s.lanes)
		var enc EncTables
		var dec DecTables
		enc.Build(freq, s.tableLog)
		dec.Build(freq, s.tableLog)
		for _, set := range testkit.KernelSets() {
			restore := cpu.Use(set)
			buf, states, tokens := testkit.Guard(2*n, int(seed%64), 1), make([]uint32, s.lanes), make([]uint8, n)
			words := enc.Encode(ix, contextMap, s.lanes, buf.Bytes(), states)
			d := Decoder{Lanes: s.lanes, Words: words}
			copy(d.States[:], states)
			ok := dec.Decode(tokens, clusters, &d)
			restore()
			buf.Check(t)
			require.Equal(t, string(wantWords), string(words))
			require.Equal(t, wantStates, states)
			require.True(t, ok && d.Finished())
			for i, v := range ix {
				require.Equal(t, uint8(v), tokens[i])
			}
		}
	})
}
