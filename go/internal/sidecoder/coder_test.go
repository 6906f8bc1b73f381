package sidecoder

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRates(t *testing.T) {
	assert.Equal(t, uint32(43690), rate[0])
	assert.Equal(t, uint32(26214), rate[1])
	assert.Equal(t, uint32(2148), rate[29])
	assert.Equal(t, uint32(2048), rate[30])
}

func TestContextAdapts(t *testing.T) {
	var c Context
	assert.Equal(t, uint32(32768), c.prob())
	want := []struct {
		bit uint
		p   uint32
	}{{1, 54612}, {1, 58981}, {0, 42130}}
	for i, w := range want {
		c.update(c.prob(), w.bit)
		assert.Equal(t, w.p, c.prob())
		assert.Equal(t, uint8(i+1), c.n)
	}
	for range 2000 {
		c.update(c.prob(), 1)
	}
	assert.Equal(t, Context{delta: (65535 - 32) ^ 32768, n: 30}, c)
	for range 2000 {
		c.update(c.prob(), 0)
	}
	assert.Equal(t, Context{delta: 32 ^ 32768, n: 30}, c)
}

// A coder of [0, 2^32 - 1] splits at 2^31 - 1: a 1 leaves lo = 0, a 0 leaves lo = 2^31.
func TestWorkedBits(t *testing.T) {
	code := func(write func(e *Encoder)) []byte {
		var e Encoder
		write(&e)
		return e.Finish()
	}
	assert.Empty(t, code(func(*Encoder) {}))
	assert.Empty(t, code(func(e *Encoder) { e.Raw(1, 1) }))
	assert.Equal(t, []byte{0x80}, code(func(e *Encoder) { e.Raw(1, 0) }))
	// Raw bits come out inverted, a 1 being the lower half, up to the rounding of the interval.
	assert.Equal(t, []byte{0x5a, 0x41, 0x10}, code(func(e *Encoder) { e.Raw(8, 0xa5); e.Raw(16, 0xbeef) }))
	assert.Equal(t, []byte{0x66, 0x77}, code(func(e *Encoder) {
		var c Context
		for _, bit := range []uint{1, 1, 0, 1, 0, 0, 0, 1} {
			e.Bit(&c, bit)
		}
	}))
	assert.Equal(t, []byte{0xea, 0x02, 0xca}, code(func(e *Encoder) {
		var tree [64]Context
		for _, v := range []uint32{5, 5, 63, 0, 5} {
			e.Tree(tree[:], 6, v)
		}
	}))
	assert.Equal(t, []byte{0x90, 0x77, 0x44, 0x38, 0xf3, 0x70, 0xb9, 0x5c, 0x80, 0xda, 0x15, 0x60, 0x01, 0x6c},
		code(func(e *Encoder) {
			var g Gamma
			for _, v := range []uint32{0, 1, 2, 3, 9, 255, GammaMax, 0} {
				e.Gamma(&g, v)
			}
		}))
}

// The string must name a number in the exact interval, and none that is shorter does.
func TestEncoderAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for range 300 {
		var e Encoder
		var contexts [3]Context
		plain := [3]oracleContext{{p: 32768}, {p: 32768}, {p: 32768}}
		skew := rng.Float64()
		o := newOracle()
		for range rng.IntN(200) {
			bit := uint(0)
			if rng.Float64() < skew {
				bit = 1
			}
			if k := rng.IntN(4); k < 3 {
				e.Bit(&contexts[k], bit)
				o.context(&plain[k], bit)
				require.Equal(t, plain[k], oracleContext{int64(contexts[k].prob()), int64(contexts[k].n)})
			} else {
				e.Raw(1, uint32(bit))
				o.bit(32768, bit)
			}
		}
		coded := e.Finish()
		require.True(t, o.contains(coded))
		require.LessOrEqual(t, len(coded), o.turns+1)
		if n := len(coded); n > 0 {
			require.NotZero(t, coded[n-1])
			require.False(t, o.contains(coded[:n-1]), "not the shortest string")
			coded[n-1]--
			require.False(t, o.contains(coded), "not the smallest value")
		}
	}
}

// Runs of likely ones end in zero bytes, all of which are dropped, but not those of what the string is appended to.
func TestZeroBytesDropped(t *testing.T) {
	var e Encoder
	e.Reset([]byte{7, 0, 0})
	e.Raw(32, 1<<32-1)
	assert.Equal(t, []byte{7, 0, 0}, e.Finish())
	e.Reset(nil)
	e.Raw(3, 3) // a 0, then 29 ones
	e.Raw(29, 1<<29-1)
	assert.Equal(t, []byte{0x80}, e.Finish())
}

// step is one composite code; it writes v and reads it back.
type step struct {
	kind byte
	k    uint
	v    uint32
}

type contextSet struct {
	bit   Context
	tree  [1 << 12]Context
	gamma Gamma
}

func write(e *Encoder, steps []step) {
	var cx contextSet
	for _, s := range steps {
		switch s.kind {
		case 'b':
			e.Bit(&cx.bit, uint(s.v))
		case 'r':
			e.Raw(s.k, s.v)
		case 't':
			e.Tree(cx.tree[:1<<s.k], s.k, s.v)
		case 'g':
			e.Gamma(&cx.gamma, s.v)
		}
	}
}

func checkRead(t *testing.T, coded []byte, steps []step) {
	t.Helper()
	var d Decoder
	d.Reset(coded)
	var cx contextSet
	for i, s := range steps {
		var v uint32
		switch s.kind {
		case 'b':
			v = uint32(d.Bit(&cx.bit))
		case 'r':
			v = d.Raw(s.k)
		case 't':
			v = d.Tree(cx.tree[:1<<s.k], s.k)
		case 'g':
			v = d.Gamma(&cx.gamma)
		}
		require.Equal(t, s.v, v, "step %d, %c", i, s.kind)
	}
	require.NoError(t, d.Finish())
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	var e Encoder
	for range 200 {
		var steps []step
		for range rng.IntN(300) {
			switch rng.IntN(4) {
			case 0:
				steps = append(steps, step{'b', 1, rng.Uint32N(2)})
			case 1:
				k := uint(rng.IntN(33))
				steps = append(steps, step{'r', k, uint32(rng.Uint64N(1 << k))})
			case 2:
				k := uint(rng.IntN(13))
				steps = append(steps, step{'t', k, rng.Uint32N(1 << k)})
			case 3:
				steps = append(steps, step{'g', 0, min(rng.Uint32()>>rng.IntN(32), GammaMax)})
			}
		}
		e.Reset(nil)
		write(&e, steps)
		checkRead(t, e.Finish(), steps)
	}
}

func TestGammaEdges(t *testing.T) {
	var steps []step
	for k := range 32 {
		for _, v := range []uint64{1<<k - 2, 1<<k - 1, 1 << k} {
			if v <= GammaMax {
				steps = append(steps, step{'g', 0, uint32(v)})
			}
		}
	}
	steps = append(steps, step{'g', 0, GammaMax})
	var e Encoder
	write(&e, steps)
	checkRead(t, e.Finish(), steps)
}

func TestGammaTooLong(t *testing.T) {
	var e Encoder
	var g Gamma
	for i := range g.u {
		e.Bit(&g.u[i], 1)
	}
	var d Decoder
	d.Reset(e.Finish())
	g = Gamma{}
	assert.Zero(t, d.Gamma(&g))
	assert.ErrorIs(t, d.Err(), errGamma)
	assert.ErrorIs(t, d.Finish(), errGamma)
}

// A longer string is an error: with a zero byte at the end it has a second spelling, with another one it was not all read.
func TestUnreadBytes(t *testing.T) {
	steps := []step{{'r', 8, 0x12}, {'g', 0, 77}, {'r', 32, 0xdeadbeef}}
	var e Encoder
	write(&e, steps)
	coded := e.Finish()
	read := func(coded []byte) error {
		var d Decoder
		d.Reset(coded)
		var cx contextSet
		d.Raw(8)
		d.Gamma(&cx.gamma)
		d.Raw(32)
		return d.Finish()
	}
	require.NoError(t, read(coded))
	for extra := 1; extra < 6; extra++ {
		long := append(bytes.Clone(coded), make([]byte, extra)...)
		assert.Error(t, read(long))
	}
	long := append(bytes.Clone(coded), 0, 0, 0, 0, 1)
	assert.ErrorIs(t, read(long), errUnread)
}

func TestEmptyStringDecodesAsZeros(t *testing.T) {
	var d Decoder
	d.Reset(nil)
	// x = 0 is always in the lower part, which is a 1.
	for range 100 {
		require.Equal(t, uint32(1<<32-1), d.Raw(32))
	}
	require.NoError(t, d.Finish())
	for _, n := range []int{1, 4, 5} {
		var d Decoder
		d.Reset(make([]byte, n))
		assert.ErrorIs(t, d.Finish(), errZero)
	}
}

func TestResetAppends(t *testing.T) {
	var e Encoder
	e.Reset([]byte("head"))
	e.Raw(1, 0)
	assert.Equal(t, "head\x80", string(e.Finish()))
}

func TestCodedSize(t *testing.T) {
	// Without adaptation a bit costs a bit: 80,000 bits are 10,000 bytes. An interval of 2^24 or more is split with an error
	// below 2^-16 of it, so the loss is far below a byte in a thousand.
	var e Encoder
	rng := rand.New(rand.NewPCG(3, 3))
	for range 10000 {
		e.Raw(8, rng.Uint32N(256))
	}
	assert.InDelta(t, 10000, len(e.Finish()), 10)

	// 400,000 bits of probability 0.1 have 0.4690 bits of entropy each. An average that forgets with rate a = 1/32 has the
	// variance p (1-p) a / (2 - a) around p, and coding with an estimate off by d costs d^2 / (2 p (1-p) ln 2) bits more:
	// a / (2 (2 - a) ln 2) = 0.01145 bits. Together 0.4804 bits, 24,022 bytes.
	e.Reset(nil)
	var c Context
	ones := 0
	for range 400000 {
		bit := uint(0)
		if rng.Float64() < 0.1 {
			bit = 1
			ones++
		}
		e.Bit(&c, bit)
	}
	p := float64(ones) / 400000
	entropy := -p*math.Log2(p) - (1-p)*math.Log2(1-p)
	const excess = 1.0 / 32 / (2 * (2 - 1.0/32) * math.Ln2)
	assert.InEpsilon(t, 400000*(entropy+excess)/8, len(e.Finish()), 0.005)

	// A context that only saw ones ends at p = 65503: log2(65536 / 65503) = 0.000727 bits. 10^6 bits take 727 bits, and the
	// way there (from 2^-15 down with rate 1/32, times 1/ln 2) less than 200 more.
	e.Reset(nil)
	c = Context{}
	for range 1000000 {
		e.Bit(&c, 1)
	}
	for range 16 {
		e.Raw(1, 0) // an end that is not all zeros
	}
	n := len(e.Finish())
	assert.Greater(t, n, 727/8)
	assert.Less(t, n, (727+200+16)/8)
}

func BenchmarkBit(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 3))
	bits := make([]uint, 4096)
	for i := range bits {
		if rng.IntN(5) == 0 {
			bits[i] = 1
		}
	}
	var coded []byte
	b.Run("Encode", func(b *testing.B) {
		var e Encoder
		for b.Loop() {
			e.Reset(coded[:0])
			var c Context
			for _, bit := range bits {
				e.Bit(&c, bit)
			}
			coded = e.Finish()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(bits)), "ns/bit")
	})
	b.Run("Decode", func(b *testing.B) {
		var d Decoder
		for b.Loop() {
			d.Reset(coded)
			var c Context
			for range bits {
				d.Bit(&c)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(bits)), "ns/bit")
	})
}
