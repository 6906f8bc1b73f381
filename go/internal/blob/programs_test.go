package blob

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// spoil changes every so many lane values a little, so that predictions are not all exact.
func spoil(b []byte, width, every int) []byte {
	for i := 0; i < len(b)/(width/8); i += every {
		testkit.PutLane(b, i, width, testkit.Lane(b, i, width)^uint64(1+i%3))
	}
	return b
}

// proposal is an input whose value is what a program predicts from slots, but for every so many lane values.
func proposal(t testing.TB, d dtype.Info, n, every int, ref []byte, p predict.Program, slots ...Slot) Input {
	var data [][]byte
	for i := range slots {
		p.Slots[i] = uint8(i)
		data = append(data, slots[i].Data)
	}
	target := make([]byte, n*d.ItemSize)
	p.Prepare(&d, uint64(n))
	p.Predict(target, data, &d, dtypesOf(slots))
	if every > 0 {
		spoil(target, d.Width, every)
	}
	return Input{
		Geometry: vector(t, d, n), Target: target, Ref: ref,
		Proposals: []Proposal{{Program: p, Slots: slots, Exact: every == 0 && p.Code == predict.Copy}},
	}
}

func TestPrograms(t *testing.T) {
	f64, f32, bf16, f16 := lookup(t, 4), lookup(t, 3), lookup(t, 1), lookup(t, 2)
	for _, n := range []int{1, 3000, dtype.ChunkElements + 9, 5*dtype.ChunkElements + 1} {
		a := testkit.Adam{Rate: 1e-3, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0.01, Steps: 100}.Step(n, 0.2, uint64(n))
		own := Slot{Role: RoleReference, DType: f32, Data: testkit.Float32s(a.X0)}
		value := func(tensor int, d dtype.Info, data []byte) Slot {
			return Slot{Role: RoleValue, Tensor: tensor, DType: d, Data: data}
		}
		m1, v1 := value(3, f32, testkit.Float32s(a.M1)), value(4, f32, testkit.Float32s(a.V1))
		m0 := Slot{Role: RoleOtherReference, Tensor: 3, DType: f32, Data: testkit.Float32s(a.M0)}
		v0 := Slot{Role: RoleReference, DType: f32, Data: testkit.Float32s(a.V0)}
		wide, _ := testkit.Float(n, 64, 11, 52, 0.1, 3)
		for name, in := range map[string]Input{
			"copy":               proposal(t, f32, n, 0, own.Data, predict.Program{Code: predict.Copy}, m1),
			"cast":               proposal(t, bf16, n, 99, nil, predict.Program{Code: predict.Cast}, m1),
			"cast from double":   proposal(t, f16, n, 99, nil, predict.Program{Code: predict.Cast}, value(1, f64, wide)),
			"cast of a double":   proposal(t, f32, n, 99, own.Data, predict.Program{Code: predict.Cast}, value(1, f64, wide)),
			"adam second moment": proposal(t, f32, n, 7, v0.Data, predict.Program{Code: predict.AdamV, Consts: [4]float32{.999, .1, .001}}, v0, m1, m0),
			"adamw weight":       proposal(t, f32, n, 50, own.Data, predict.Program{Code: predict.AdamW, Consts: [4]float32{1, 1, 1e-8, -1e-3}}, own, m1, v1),
			"sgd weight":         proposal(t, f32, n, 50, own.Data, predict.Program{Code: predict.SGDWeight, Consts: [4]float32{.9999, -.01}}, own, m1),
		} {
			_, r := codes(t, in)
			if n == 1 {
				continue
			}
			require.EqualValues(t, PlanCoded, r.Plan, "%s of %d", name, n)
			code := in.Proposals[0].Program
			assert.Equal(t, code.Name(), r.Detail.Program, "%s of %d", name, n)
			assert.EqualValues(t, predictProgram, r.Detail.Predictor)
			assert.Len(t, r.Slots, code.NumSlots())
			assert.Less(t, r.NBytes, in.Geometry.NBytes()/3+2000, "%s of %d", name, n)
		}
	}
}

// A program that predicts badly is not used, whatever its constants are.
func TestProgramsThatDoNotFit(t *testing.T) {
	f32 := lookup(t, 3)
	target, ref := pair(f32, 3000, false, 1)
	nan := float32(math.NaN())
	slot := Slot{Role: RoleReference, DType: f32, Data: ref}
	other := Slot{Role: RoleValue, Tensor: 9, DType: f32, Data: target[:0:0]}
	other.Data, _ = pair(f32, 3000, true, 2)
	for _, p := range []predict.Program{
		{Code: predict.SGDWeight, Slots: [3]uint8{0, 1}, Consts: [4]float32{nan, nan}},
		{Code: predict.SGDWeight, Slots: [3]uint8{1, 0}, Consts: [4]float32{1e30, 1e30}},
		{Code: predict.Copy, Slots: [3]uint8{1}},
	} {
		in := Input{Geometry: vector(t, f32, 3000), Target: target, Ref: ref}
		in.Proposals = []Proposal{{Program: p, Slots: []Slot{slot, other}}}
		_, r := codes(t, in)
		if p.Slots[0] != 0 { // else what is not finite leaves the reference
			assert.Empty(t, r.Detail.Program)
		}
	}
}

// decayedRows makes rows of which some are a decayed reference and the others changed in another way.
func decayedRows(t testing.TB, d dtype.Info, rows, rho int, p predict.Program, isExact func(row int) bool) Input {
	target, ref := testkit.Float(rows*rho, d.Width, d.ExpBits, d.MantBits, 0.01, uint64(rows))
	p.Prepare(&d, uint64(rows*rho))
	predicted := make([]byte, len(ref))
	p.Predict(predicted, [][]byte{ref}, &d, []dtype.Info{d})
	size := rho * d.ItemSize
	for row := range rows {
		if isExact(row) {
			copy(target[row*size:(row+1)*size], predicted[row*size:])
		}
	}
	return Input{Geometry: shaped(t, d, uint64(rows), uint64(rho)), Target: target, Ref: ref}
}

func TestExactRows(t *testing.T) {
	decay := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: predict.Scale, C: 0.95, Count: 20}}}
	shrink := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: predict.Shrink, C: float32(1 - 0.9), Count: 10}}}
	for _, c := range []struct {
		name    string
		code    uint8
		rows    int
		rho     int
		p       predict.Program
		isExact func(int) bool
		exact   int
	}{
		{"half", 3, 400, 24, decay, func(row int) bool { return row%2 == 0 }, 200},
		{"bfloat16", 1, 300, 64, shrink, func(row int) bool { return row%10 != 0 }, 270},
		{"few are coded", 3, 6000, 300, decay, func(row int) bool { return row != 77 }, 5999},
		{"few are exact", 3, 300, 100, shrink, func(row int) bool { return row < 10 }, 10},
		{"chunks that are exact", 3, 9000, 256, decay, func(row int) bool { return row < 1100 || row > 4200 }, 5899},
		{"chunks that are exact, bfloat16", 1, 9000, 256, shrink, func(row int) bool { return row < 4097 || row > 4200 }, 8896},
		{"rows across chunks", 3, 50, 30011, shrink, func(row int) bool { return row%3 > 0 }, 33},
	} {
		in := decayedRows(t, lookup(t, c.code), c.rows, c.rho, c.p, c.isExact)
		_, r := codes(t, in)
		assert.EqualValues(t, PlanRows, r.Plan, c.name)
		if assert.NotNil(t, r.Detail.Additions, c.name) {
			assert.EqualValues(t, c.exact, r.Detail.ExactRows, c.name)
			assert.Equal(t, "decay", r.Detail.Program, c.name)
		}
		in.Fast = true
		_, r = codes(t, in)
		assert.EqualValues(t, PlanCoded, r.Plan)
	}

	all := decayedRows(t, lookup(t, 3), 6000, 300, decay, func(int) bool { return true })
	blob, r := codes(t, all)
	assert.EqualValues(t, PlanCoded, r.Plan)
	assert.Equal(t, "decay", r.Detail.Program)
	assert.Less(t, len(blob), 300)
}

// Coded rows with classes, sparse, with few changes, and in the context of another tensor.
func TestExactRowsAndMore(t *testing.T) {
	decay := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: predict.Scale, C: 0.95, Count: 3}}}
	some := func(row int) bool { return row%3 == 0 }
	in := decayedRows(t, lookup(t, 3), 3000, 100, decay, some)
	for i := range 300000 {
		if !some(i / 100) {
			copy(in.Target[4*i:4*i+4], in.Ref[4*i:])
		}
	}
	for row := range 3000 {
		if row%7 == 1 {
			for i := row * 100; i < row*100+50; i++ {
				testkit.PutLane(in.Target, i, 32, testkit.Lane(in.Ref, i, 32)+uint64(row%60))
			}
		}
	}
	_, r := codes(t, in)
	assert.EqualValues(t, PlanRows, r.Plan)

	few := decayedRows(t, lookup(t, 1), 3000, 100, decay, some)
	for i := range 300000 {
		if !some(i/100) && i%40 != 0 {
			copy(few.Target[2*i:2*i+2], few.Ref[2*i:])
		}
	}
	blob, r := codes(t, few)
	assert.EqualValues(t, PlanRows, r.Plan)
	assert.Equal(t, []uint8{bodySparse, bodySparse}, kinds(t, few, &r, blob))

	other := Slot{Role: RoleValue, Tensor: 2, DType: lookup(t, 3), Data: testkit.Float32s(make([]float32, 300000))}
	beside := decayedRows(t, lookup(t, 3), 3000, 100, decay, some)
	rng := testkit.Rand(5)
	for i := range 300000 {
		e := rng.Uint64N(20) + 100
		testkit.PutLane(other.Data, i, 32, e<<23|rng.Uint64()>>41)
		if !some(i / 100) {
			testkit.PutLane(beside.Target, i, 32, (e-3)<<23|rng.Uint64()>>41|rng.Uint64N(2)<<31)
		}
	}
	beside.Beside = &other
	_, r = codes(t, beside)
	assert.EqualValues(t, PlanRows, r.Plan)
	assert.EqualValues(t, contextBeside, r.Detail.ContextPart)
	assert.Len(t, r.Slots, 2)
}

// kinds are the kinds of the chunk bodies of a blob.
func kinds(t testing.TB, in Input, r *Result, blob []byte) (list []uint8) {
	var d Decoder
	record := recordOf(in, r)
	require.NoError(t, d.Open(in.Geometry, record, func(from, to uint64) ([]byte, error) { return blob[from:to], nil }))
	for _, body := range d.bodies {
		list = append(list, blob[body.from]&(1<<bodyKindBits-1))
	}
	return list
}
