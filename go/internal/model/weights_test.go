package model

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWeights(t *testing.T) {
	assert.Zero(t, weight(0, 1))
	for p := 1; p <= 4; p++ {
		// Codes are the floats with p mantissa bits in order, from 2^p to below 2^16.
		assert.Equal(t, uint32(1)<<p, weight(1, p))
		for q := 2; q <= maxCode(p); q++ {
			require.Greater(t, weight(uint8(q), p), weight(uint8(q-1), p))
		}
		assert.Equal(t, uint32(1<<16-1<<(15-p)), weight(uint8(maxCode(p)), p))
		assert.LessOrEqual(t, maxCode(p), 255)
	}
	assert.Equal(t, uint32(5<<3), weight(1+3<<2+1, 2))
}

func TestWeightCodes(t *testing.T) {
	for p := 1; p <= 3; p++ {
		top := (15-p)<<p + 1
		for _, most := range []uint32{1, 2, 3, 1000, 32768, 1<<32 - 1} {
			assert.Equal(t, uint8(top), weightCode(most, most, p))
			assert.Equal(t, uint32(weightTop), weight(uint8(top), p))
		}
		assert.Equal(t, uint8(1), weightCode(1, 1<<31, p), "never 0")
		for v := uint32(1); v <= weightTop; v++ { // count v of 2^15 has the value v before quantising
			q := weightCode(v, weightTop, p)
			w := weight(q, p)
			// Rounded to the nearest of p mantissa bits.
			if v >= 1<<p {
				require.LessOrEqual(t, max(w, v)-min(w, v), v>>(p+1)+1)
			} else {
				require.Equal(t, uint8(1), q)
			}
		}
	}
	// 5 of 8 is 20480 = 1.25 * 2^14, on p = 1 between 1 and 1.5: rounds up.
	assert.Equal(t, uint8(13<<1+2), weightCode(5, 8, 1))
}

func TestNormalizeWorkedValues(t *testing.T) {
	for _, c := range []struct {
		codes       []uint8
		p, tableLog int
		want        []uint16
	}{
		{[]uint8{0, 0, 7}, 2, 8, []uint16{1, 0, 255}},
		{[]uint8{5, 0, 0}, 2, 8, []uint16{255, 1, 0}},
		{[]uint8{0, 30}, 1, 12, []uint16{1, 4095}},
		{[]uint8{29, 29, 1, 1, 1}, 1, 8, []uint16{125, 128, 1, 1, 1}},
		{[]uint8{0, 30, 31, 0, 28, 12, 9, 0}, 2, 8, []uint16{0, 86, 104, 0, 60, 4, 2, 0}},
		{[]uint8{1, 1, 1}, 1, 8, []uint16{86, 85, 85}},
		{[]uint8{12, 12, 12, 1}, 3, 12, []uint16{1217, 1218, 1218, 443}},
		{[]uint8{0, 29, 20, 20, 11, 0, 0, 1}, 1, 11, []uint16{0, 1867, 88, 88, 4, 0, 0, 1}},
		{[]uint8{0, 25, 29, 20, 0, 0, 1, 1}, 1, 11, []uint16{0, 395, 1577, 74, 0, 0, 1, 1}},
	} {
		freq := make([]uint16, len(c.codes))
		normalize(freq, c.codes, c.p, c.tableLog)
		assert.Equal(t, c.want, freq, "%v", c.codes)
	}
}

func TestNormalizeAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 2000 {
		p := 1 + rng.IntN(4)
		tableLog := 8 + rng.IntN(5)
		codes := make([]uint8, 2+rng.IntN(255))
		density := rng.Float64()
		for s := range codes {
			if rng.Float64() < density {
				codes[s] = uint8(1 + rng.IntN(maxCode(p)))
				if rng.IntN(3) == 0 {
					codes[s] = 1
				}
			}
		}
		codes[rng.IntN(len(codes))] = uint8(maxCode(p))
		freq := make([]uint16, len(codes))
		normalize(freq, codes, p, tableLog)
		require.Equal(t, oracleNormalize(codes, p, tableLog), freq)
		sum := 0
		for s, f := range freq {
			sum += int(f)
			require.Less(t, int(f), 1<<tableLog)
			if codes[s] != 0 {
				require.NotZero(t, f)
			}
		}
		require.Equal(t, 1<<tableLog, sum)
	}
	// All 256 tokens with a table of 256: every frequency is cut to 1.
	codes := make([]uint8, 256)
	for s := range codes {
		codes[s] = 1
	}
	codes[17] = 30
	freq := make([]uint16, 256)
	normalize(freq, codes, 1, 8)
	for _, f := range freq {
		require.Equal(t, uint16(1), f)
	}
}
