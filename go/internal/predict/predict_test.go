package predict

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/wire"
)

func info(t *testing.T, code uint8) *dtype.Info {
	t.Helper()
	d, ok := dtype.Lookup(code)
	require.True(t, ok)
	return &d
}

// Bit patterns around every border: all exponents with chosen mantissas, and random ones.
func patterns32() []uint32 {
	r := rand.New(rand.NewPCG(1, 2))
	var out []uint32
	for e := range uint32(256) {
		for _, m := range []uint32{0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0x17fff, 0x18000, 0x3fffff, 0x400000, 0x7fffff, 0x7fe000, 0x7fefff, 0x7ff000} {
			out = append(out, e<<23|m, 1<<31|e<<23|m)
		}
	}
	for range 200000 {
		out = append(out, r.Uint32())
	}
	return out
}

func TestCastMatchesTheProcessor(t *testing.T) {
	f32, f64, bf16, f16 := info(t, 3), info(t, 4), info(t, 1), info(t, 2)
	for _, u := range patterns32() {
		v := math.Float32frombits(u)
		wide := CastBits(uint64(u), f64, f32)
		if v == v {
			require.Equal(t, math.Float64bits(float64(v)), wide, "%08x", u)
		}
		require.Equal(t, uint64(u)|quietIf(u), CastBits(wide, f32, f64)|quietIf(u), "there and back %08x", u)

		if v == v {
			// bfloat16 by adding half an ulp, less one if the result would be odd.
			require.Equal(t, uint64((u+0x7fff+u>>16&1)>>16), CastBits(uint64(u), bf16, f32), "%08x", u)
		}
		back := CastBits(CastBits(uint64(u), f16, f32), f32, f16)
		checkHalf(t, v, math.Float32frombits(uint32(back)))
	}
	for range 200000 {
		u := rand.Uint64()
		if v := math.Float64frombits(u); v == v {
			require.Equal(t, uint64(math.Float32bits(float32(v))), CastBits(u, f32, f64), "%016x", u)
		}
	}
}

// quietIf is the bit that a narrowing conversion sets in a NaN.
func quietIf(u uint32) uint64 {
	if u&0x7fffffff > 0x7f800000 {
		return 1 << 22
	}
	return 0
}

// checkHalf checks that h is the float16 nearest to v: none of its neighbours is nearer.
func checkHalf(t *testing.T, v, h float32) {
	t.Helper()
	switch a := math.Abs(float64(v)); {
	case v != v:
		require.True(t, h != h)
	case a >= 65520:
		require.True(t, math.IsInf(float64(h), 0))
	default:
		unit := math.Ldexp(1, max(math.Ilogb(math.Max(a, math.Ldexp(1, -14))), -14)-10)
		require.LessOrEqual(t, math.Abs(float64(h)-float64(v)), unit/2)
	}
	require.Equal(t, math.Signbit(float64(v)), math.Signbit(float64(h)))
}

func TestEveryHalfComesBack(t *testing.T) {
	f32, f64 := info(t, 3), info(t, 4)
	for _, code := range []uint8{1, 2} {
		d := info(t, code)
		for u := range uint64(1 << 16) {
			exp := u >> d.MantBits & (1<<d.ExpBits - 1)
			nan := exp == 1<<d.ExpBits-1 && u&(1<<d.MantBits-1) != 0
			want := u
			if nan {
				want |= 1 << (d.MantBits - 1)
			}
			require.Equal(t, want, CastBits(CastBits(u, f32, d), d, f32), "%04x", u)
			require.Equal(t, want, CastBits(CastBits(u, f64, d), d, f64), "%04x", u)
		}
	}
}

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func TestDecayIsTheLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var src []float32
	for range 1000 {
		src = append(src, float32(r.NormFloat64()*math.Exp(20*r.NormFloat64())))
	}
	p := Program{Code: Decay, Runs: []Run{{Scale, 0.95, 7}, {Shrink, 0.1, 5}}}
	own := info(t, 3)
	dst := make([]byte, 4*len(src))
	p.Predict(dst, [][]byte{floats(src...)}, own, []dtype.Info{*own})
	for i, v := range src {
		w := v
		for range 7 {
			w = float32(w * 0.95)
		}
		for range 5 {
			w = float32(float64(w) - float64(float32(0.1))*float64(w))
		}
		if !finite(v) || !finite(w) {
			w = v
		}
		require.Equal(t, math.Float32bits(w), binary.LittleEndian.Uint32(dst[4*i:]))
	}
	inPlace := floats(src...)
	p.Predict(inPlace, [][]byte{inPlace}, own, []dtype.Info{*own})
	assert.Equal(t, dst, inPlace)
}

func TestNotFiniteTakesTheFirstSlot(t *testing.T) {
	own := info(t, 3)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	first := floats(1, 2, 3, inf, nan, 1)
	other := floats(inf, 1, nan, 1, 1, 1)
	zero := floats(0, 0, 0, 0, 0, 0)
	for _, p := range []Program{
		{Code: AdamV, Slots: [3]uint8{0, 1, 2}, Consts: [4]float32{.9, .1, .05}},
		{Code: AdamW, Slots: [3]uint8{0, 1, 2}, Consts: [4]float32{1, 1, 0, -1}}, // v1 = 0, eps = 0: a division by zero
		{Code: SGDWeight, Slots: [3]uint8{0, 1}, Consts: [4]float32{1, -1}},
	} {
		dst := make([]byte, len(first))
		p.Predict(dst, [][]byte{first, other, zero}, own, []dtype.Info{*own, *own, *own})
		for _, i := range []int{0, 2, 3, 4} {
			assert.Equal(t, first[4*i:4*i+4], dst[4*i:4*i+4], "program %d lane %d", p.Code, i)
		}
	}
}

// A step of torch's AdamW on the processor, by its own order of operations in float32.
func TestReplayOfOneStep(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	own := info(t, 3)
	exactV, exactX, n := 0, 0, 20000
	var x0, x1, m0, m1, v0, v1 []float32
	lr, b1, b2, eps, wd, step := 3e-4, 0.9, 0.999, 1e-8, 0.1, 100.0
	for range n {
		x, m, g := float32(r.NormFloat64()*.02), float32(r.NormFloat64()*1e-3), float32(r.NormFloat64()*1e-3)
		v := float32(r.Float64() * 1e-6)
		x0, m0, v0 = append(x0, x), append(m0, m), append(v0, v)
		m = fused(float32(1-b1), float32(g-m), m)
		v = fused(float32(float32(1-b2)*g), g, float32(v*float32(b2)))
		s2 := float32(math.Sqrt(1 - math.Pow(b2, step)))
		den := float32(float32(float32(math.Sqrt(float64(v)))/s2) + float32(eps))
		x = fused(float32(-lr/(1-math.Pow(b1, step))), float32(m/den), float32(x*float32(1-lr*wd)))
		x1, m1, v1 = append(x1, x), append(m1, m), append(v1, v)
	}
	roles := []dtype.Info{*own, *own, *own}
	dst := make([]byte, 4*n)
	p := Program{Code: AdamV, Slots: [3]uint8{0, 1, 2}, Consts: [4]float32{float32(b2), float32(1 - b1), float32(1 - b2)}}
	p.Predict(dst, [][]byte{floats(v0...), floats(m1...), floats(m0...)}, own, roles)
	for i := range n {
		if get(dst, i) == v1[i] {
			exactV++
		}
	}
	p = Program{Code: AdamW, Slots: [3]uint8{0, 1, 2}, Consts: [4]float32{
		float32(1 - lr*wd), float32(math.Sqrt(1 - math.Pow(b2, step))), float32(eps), float32(-lr / (1 - math.Pow(b1, step)))}}
	p.Predict(dst, [][]byte{floats(x0...), floats(m1...), floats(v1...)}, own, roles)
	for i := range n {
		if get(dst, i) == x1[i] {
			exactX++
		}
	}
	assert.Equal(t, n, exactX, "the weight's step has all its operands")
	assert.Greater(t, exactV, n*3/4, "the gradient comes back from m up to its rounding")
}

func TestProgramsOnTheWire(t *testing.T) {
	for _, p := range []Program{
		{Code: Copy, Slots: [3]uint8{1}},
		{Code: Cast, Slots: [3]uint8{2}},
		{Code: Decay, Runs: []Run{{Scale, .5, 1}, {Shrink, .25, 4095}}},
		{Code: AdamV, Slots: [3]uint8{0, 1, 2}, Consts: [4]float32{1, 2, 3}},
		{Code: AdamW, Slots: [3]uint8{2, 1, 0}, Consts: [4]float32{1, 2, 3, 4}},
		{Code: SGDWeight, Slots: [3]uint8{0, 1}, Consts: [4]float32{5, 6}},
	} {
		b := p.Append(nil)
		r := wire.NewReader(b)
		back, err := Read(&r)
		require.NoError(t, err)
		assert.Equal(t, p, back)
		assert.Zero(t, r.Len())
		for n := range b {
			r := wire.NewReader(b[:n])
			_, err := Read(&r)
			assert.Error(t, err)
		}
	}
	bad := [][]byte{
		{0}, {7}, {255},
		{Decay, 0, 0}, // no run
		append([]byte{Decay, 0, 1, 2}, 0, 0, 0, 0, 1),                               // form 2
		append([]byte{Decay, 0, 1, 0}, 0, 0, 0, 0, 0),                               // no step
		append([]byte{Decay, 0, 1, 0}, 0, 0, 0, 0, 0x81, 0x20),                      // 4097 steps
		append([]byte{Decay, 0, 2, 0}, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0x20, 0), // 4097 in two runs
	}
	for _, b := range bad {
		r := wire.NewReader(b)
		_, err := Read(&r)
		assert.Error(t, err, "%v", b)
	}
}

func TestCheck(t *testing.T) {
	f32, bf16, i32 := *info(t, 3), *info(t, 1), *info(t, 21)
	ok := func(p Program, own *dtype.Info, roles ...dtype.Info) {
		t.Helper()
		assert.NoError(t, p.Check(own, roles))
	}
	no := func(p Program, own *dtype.Info, roles ...dtype.Info) {
		t.Helper()
		assert.Error(t, p.Check(own, roles))
	}
	ok(Program{Code: Copy}, &i32, i32)
	no(Program{Code: Copy}, &i32, f32)
	no(Program{Code: Copy, Slots: [3]uint8{1}}, &i32, i32)
	ok(Program{Code: Cast}, &bf16, f32)
	no(Program{Code: Cast}, &f32, f32)
	no(Program{Code: Cast}, &f32, i32)
	ok(Program{Code: Decay}, &f32, f32)
	ok(Program{Code: Decay}, &bf16, bf16)
	no(Program{Code: Decay}, &bf16, f32)
	no(Program{Code: Decay}, &i32, i32)
	no(Program{Code: AdamV, Slots: [3]uint8{0, 1, 2}}, &f32, f32, f32)
}
