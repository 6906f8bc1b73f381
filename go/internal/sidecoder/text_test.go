package sidecoder

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names is text like that of a directory.
func names(layers int) []byte {
	var b strings.Builder
	for i := range layers {
		for _, part := range []string{"self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm"} {
			fmt.Fprintf(&b, "model.layers.%d.%s.weight", i, part)
			b.WriteByte(byte(i))
		}
	}
	return []byte(b.String())
}

func TestTextWorkedValues(t *testing.T) {
	for plain, coded := range map[string]string{
		"":                                 "",
		"a":                                "9e",
		"\x00":                             "ff",
		"\xff\xff\xff":                     "",
		"layers.0.w layers.1.w layers.2.w": "939e869a8d8cd1cfd12f9904888ca32d27",
		"abcabcabcabcabcabc":               "9e9d9c9e93e1",
		"model.layers.0.weight\nmodel.layers.1.weight\nmodel.layers.2.weight\nmodel.layers.3.bias\n": "92909b9a93d1933ba08d463e25733d12cbb1" +
			"51442253c1cb156f97fb4de0e5c2596d278e8e",
	} {
		assert.Equal(t, coded, hex.EncodeToString(EncodeText([]byte(plain))), "%q", plain)
		raw, err := hex.DecodeString(coded)
		require.NoError(t, err)
		back, err := DecodeText(raw, len(plain))
		require.NoError(t, err)
		assert.Equal(t, plain, string(back))
	}
}

// oracleText is section 5.2 word by word, coding with the exact interval.
func oracleText(b []byte) *oracle {
	o := newOracle()
	fresh := func(n int) []oracleContext {
		c := make([]oracleContext, n)
		for i := range c {
			c[i].p = 32768
		}
		return c
	}
	match := fresh(16)
	trees := map[byte][]oracleContext{}
	positions := map[uint32]int{}
	ptr, length := 0, 0
	for i := range b {
		if i >= 4 {
			word := uint32(b[i-4]) | uint32(b[i-3])<<8 | uint32(b[i-2])<<16 | uint32(b[i-1])<<24
			h := uint32(uint64(word)*2654435761%(1<<32)) >> 16
			cand := positions[h]
			positions[h] = i
			if length == 0 && cand > 0 {
				ptr, length = cand, 1
			}
		}
		if ptr > 0 {
			m := &match[min(length, 15)]
			if b[ptr] == b[i] {
				o.context(m, 1)
				length++
				ptr++
				continue
			}
			o.context(m, 0)
			length = 0
			ptr++
		}
		before := byte(0)
		if i > 0 {
			before = b[i-1]
		}
		if trees[before] == nil {
			trees[before] = fresh(256)
		}
		node := 1
		for k := 7; k >= 0; k-- {
			bit := int(b[i]) >> k & 1
			o.context(&trees[before][node], uint(bit))
			node = 2*node + bit
		}
	}
	return o
}

func TestTextAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for i := range 60 {
		plain := make([]byte, rng.IntN(600))
		switch i % 3 {
		case 0:
			for k := range plain {
				plain[k] = byte(rng.Uint32())
			}
		case 1:
			for k := range plain {
				plain[k] = byte(rng.IntN(3) / 2)
			}
		case 2:
			all := names(20)
			at := rng.IntN(len(all) - len(plain))
			copy(plain, all[at:])
		}
		coded := EncodeText(plain)
		require.True(t, oracleText(plain).contains(coded))
		back, err := DecodeText(coded, len(plain))
		require.NoError(t, err)
		require.Equal(t, plain, back)
	}
}

func TestTextLong(t *testing.T) {
	plain := names(400)
	require.Greater(t, len(plain), textFirstGuess)
	coded := EncodeText(plain)
	assert.Equal(t, coded, EncodeText(plain), "pooled memory does not change the bytes")
	back, err := DecodeText(coded, len(plain))
	require.NoError(t, err)
	assert.Equal(t, plain, back)
	// Each of the 2,000 names repeats the one five before, about 40 bytes at nearly no cost, except for the number of the
	// layer and the byte after the name: for each a miss and a literal, where the digit that changes is mostly one of ten
	// (3.3 bits) and the byte one of 256 (8 bits), and the end of the match costs up to log2(40) = 5.3 bits. Twice that for
	// contexts that are still young: 2 * (3.3 + 8 + 2 * 5.3) = 44 bits a name.
	assert.Less(t, len(coded), 2000*44/8)
}

func TestTextErrors(t *testing.T) {
	plain := names(2)
	coded := EncodeText(plain)
	for _, n := range []int{-1, MaxText + 1} {
		_, err := DecodeText(coded, n)
		assert.ErrorIs(t, err, errTextLength)
	}
	_, err := DecodeText(append(coded, 0, 0, 0, 0, 1), len(plain))
	assert.ErrorIs(t, err, errUnread)
	_, err = DecodeText(coded, 10)
	assert.ErrorIs(t, err, errUnread)
	// A cut string decodes to something else of the right length; the checksum of the directory is what notices.
	back, err := DecodeText(coded[:len(coded)/2], len(plain))
	require.NoError(t, err)
	assert.Len(t, back, len(plain))
	assert.NotEqual(t, plain, back)
}

func FuzzDecodeText(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte{0}, 9)
	f.Add(EncodeText(names(3)), len(names(3)))
	f.Fuzz(func(t *testing.T, coded []byte, n int) {
		if n > 1<<16 {
			n %= 1 << 16
		}
		plain, err := DecodeText(coded, n)
		if err != nil {
			return
		}
		require.Len(t, plain, n)
		again, err := DecodeText(EncodeText(plain), n)
		require.NoError(t, err)
		require.Equal(t, plain, again)
	})
}

func BenchmarkText(b *testing.B) {
	plain := names(2000)
	var coded []byte
	b.Run("Encode", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			coded = EncodeText(plain)
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			if _, err := DecodeText(coded, len(plain)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(coded)), "bytes")
	})
}
