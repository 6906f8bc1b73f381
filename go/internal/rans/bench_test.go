package rans

import (
	"fmt"
	"testing"

	"github.com/ulpack/ulpack/go/internal/testkit"
)

// benchSetup has 2^18 values of tables like those of bf16 weights; bytes are counted as if they were bf16.
func benchSetup(b *testing.B, lanes, tableLog int) ([]uint16, []uint8, [][]uint16) {
	b.Helper()
	s := setup{5, 32, 60, tableLog, lanes}
	freq, contextMap := make([][]uint16, 5), contextMapOf(s)
	for k := range freq {
		freq[k] = peaked(60, tableLog, 8+4*k)
	}
	return symbols(1<<18, contextMap, freq, tableLog, 1), contextMap, freq
}

// peaked is a table around one token, which costs about 3.5 bits.
func peaked(alphabet, tableLog, at int) []uint16 {
	row := make([]uint16, alphabet)
	left := 1 << tableLog
	for d := 0; d < alphabet && left > 0; d++ {
		for _, s := range []int{at + d, at - d - 1} {
			if s >= 0 && s < alphabet && left > 0 {
				f := max(1, left/8)
				row[s], left = uint16(f), left-f
			}
		}
	}
	row[at] += uint16(left)
	return row
}

func BenchmarkDecode(b *testing.B) {
	for _, lanes := range []int{1, 4, 16, 64} {
		for _, tableLog := range []int{11, 12} {
			b.Run(fmt.Sprintf("lanes%d/log%d", lanes, tableLog), func(b *testing.B) {
				ix, contextMap, freq := benchSetup(b, lanes, tableLog)
				var enc EncTables
				enc.Build(freq, tableLog)
				var states [MaxLanes]uint32
				words := enc.Encode(ix, contextMap, lanes, make([]byte, 2*len(ix)), states[:])
				clusters, tokens := make([]uint8, len(ix)), make([]uint8, len(ix))
				for i, v := range ix {
					clusters[i] = contextMap[v>>8]
				}
				var tab DecTables
				tab.Build(freq, tableLog)
				testkit.BenchKernel(b, func(b *testing.B) {
					for b.Loop() {
						dec := Decoder{States: states, Lanes: lanes, Words: words}
						for a := 0; a < len(ix); a += 4096 {
							if !tab.Decode(tokens[a:a+4096], clusters[a:a+4096], &dec) {
								b.Fatal("decode")
							}
						}
					}
					testkit.Report(b, len(ix), 2*len(ix))
				})
			})
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, lanes := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("lanes%d", lanes), func(b *testing.B) {
			ix, contextMap, freq := benchSetup(b, lanes, 11)
			var enc EncTables
			enc.Build(freq, 11)
			buf := make([]byte, 2*len(ix))
			var states [MaxLanes]uint32
			testkit.BenchKernel(b, func(b *testing.B) {
				for b.Loop() {
					enc.Encode(ix, contextMap, lanes, buf, states[:])
				}
				testkit.Report(b, len(ix), 2*len(ix))
			})
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	freq := tables(5, 60, 11, 1)
	b.Run("decoder", func(b *testing.B) {
		var d DecTables
		for b.Loop() {
			d.Build(freq, 11)
		}
	})
	b.Run("encoder", func(b *testing.B) {
		var e EncTables
		for b.Loop() {
			e.Build(freq, 11)
		}
	})
}
