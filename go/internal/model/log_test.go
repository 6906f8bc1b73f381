package model

import (
	"math"
	"math/big"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLogWorkedValues(t *testing.T) {
	for v, want := range map[uint64]uint64{
		1: 0, 2: 65536, 3: 103872, 5: 152169, 7: 183982, 10: 217705, 1000: 653117, 4095: 786408, 4096: 786432, 8191: 851956,
		12345: 890734, 1<<32 - 1: 2097140, 1 << 32: 2097152, 1 << 63: 4128768,
	} {
		assert.Equal(t, want, Log2(v), v)
	}
	for v, want := range map[uint64]uint64{
		0: 0, 1: 0, 2: 131072, 3: 311616, 1000: 653117000, 4095: 3220340760, 4096: 3221225472, 1<<32 - 1: 9007147713036300,
	} {
		assert.Equal(t, want, XLog(v), v)
	}
}

// Every entry of the table is the logarithm cut off to 16 bits, which takes 2^16 fractional bits of the power to check
// exactly: 2^(T/65536) <= 1 + i/4096 < 2^((T+1)/65536). The truncations of the 16 squarings may lose one unit.
func TestLogTableExact(t *testing.T) {
	for i := 1; i < 4096; i += 37 {
		power := new(big.Int).Exp(big.NewInt(int64(4096+i)), big.NewInt(65536), nil)
		exact := power.BitLen() - 1 - 12*65536
		got := int(logFrac[i])
		assert.True(t, got == exact || got == exact-1, "%d: %d, exactly %d", i, got, exact)
	}
}

func TestLogAgainstOracle(t *testing.T) {
	for v := uint64(1); v < 20000; v++ {
		require.Equal(t, oracleLog2(v), Log2(v), v)
		require.Equal(t, oracleXLog(v), XLog(v), v)
	}
	for b := 14; b < 64; b++ {
		for _, v := range []uint64{1<<b - 1, 1 << b, 1<<b + 1, 1<<b | 1<<(b-13), 3 << (b - 1), 0xdeadbeefcafef00d >> (63 - b)} {
			require.Equal(t, oracleLog2(v), Log2(v), v)
			// 12 bits under the leading one: the mean value theorem bounds the error by 2^-12 / ln 2 bits, 23.1 units.
			require.InDelta(t, math.Log2(float64(v))*65536, Log2(v), 25)
		}
	}
	require.Equal(t, bits.Len64(math.MaxUint64)-1, int(Log2(math.MaxUint64)>>16))
}
