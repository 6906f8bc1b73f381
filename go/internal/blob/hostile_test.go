package blob

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/predict"
	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// additions are small inputs that use what format version 1.1 brought, one of each kind.
func additions(t testing.TB) map[string]Input {
	f32, bf16 := lookup(t, 3), lookup(t, 1)
	const n = 150
	a := testkit.Adam{Rate: 1e-3, B1: 0.9, B2: 0.999, Eps: 1e-8, Decay: 0.01, Steps: 100}.Step(n, 0.2, 1)
	own := Slot{Role: RoleReference, DType: f32, Data: testkit.Float32s(a.X0)}
	m1 := Slot{Role: RoleValue, Tensor: 3, DType: f32, Data: testkit.Float32s(a.M1)}
	v1 := Slot{Role: RoleValue, Tensor: 4, DType: f32, Data: testkit.Float32s(a.V1)}
	m0 := Slot{Role: RoleOtherReference, Tensor: 3, DType: f32, Data: testkit.Float32s(a.M0)}
	v0 := Slot{Role: RoleReference, DType: f32, Data: testkit.Float32s(a.V0)}

	decay := predict.Program{Code: predict.Decay, Runs: []predict.Run{{Form: predict.Scale, C: 0.95, Count: 20}}}
	narrow := Input{Geometry: vector(t, f32, n)}
	narrow.Target, narrow.Ref = pair(f32, n, false, 4)
	for i := range n {
		testkit.PutLane(narrow.Target, i, 32, testkit.Lane(narrow.Target, i, 32)>>16<<16)
	}
	beside := Input{Geometry: vector(t, bf16, 4*n), Beside: &Slot{Role: RoleValue, Tensor: 1, DType: f32}}
	rng := testkit.Rand(8)
	beside.Target, beside.Beside.Data = make([]byte, 8*n), make([]byte, 16*n)
	for i := range 4 * n {
		e := rng.Uint64N(40) + 80
		testkit.PutLane(beside.Target, i, 16, e<<7|rng.Uint64()>>57)
		testkit.PutLane(beside.Beside.Data, i, 32, e<<23|rng.Uint64()>>41)
	}
	few := Input{Geometry: vector(t, bf16, 3000)}
	_, few.Ref = pair(bf16, 3000, false, 6)
	few.Target = spoil(bytes.Clone(few.Ref), 16, 40)
	return map[string]Input{
		"copy":     proposal(t, f32, n, 0, nil, predict.Program{Code: predict.Copy}, m1),
		"cast":     proposal(t, bf16, n, 20, nil, predict.Program{Code: predict.Cast}, m1),
		"decay":    decayedRows(t, f32, 10, 15, decay, func(int) bool { return true }),
		"adam":     proposal(t, f32, n, 7, v0.Data, predict.Program{Code: predict.AdamV, Consts: [4]float32{.999, .1, .001}}, v0, m1, m0),
		"adamw":    proposal(t, f32, n, 50, own.Data, predict.Program{Code: predict.AdamW, Consts: [4]float32{1, 1, 1e-8, -1e-3}}, own, m1, v1),
		"sgd":      proposal(t, f32, n, 50, own.Data, predict.Program{Code: predict.SGDWeight, Consts: [4]float32{.9999, -.01}}, own, m1),
		"rows":     decayedRows(t, bf16, 100, 9, decay, func(row int) bool { return row%5 > 0 }),
		"narrow":   narrow,
		"beside":   beside,
		"sparse":   few,
		"classes":  rowsOf(t, bf16, 64, 520, 3),
		"3 chunks": decayedRows(t, lookup(t, 3), 2049, 256, decay, func(row int) bool { return row < 1100 || row > 1110 }),
	}
}

// Every byte at the start of a blob in turn set to every value, and every byte of it flipped: an error of the right kind, or
// the same value.
func TestHostileAdditions(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	for name, in := range additions(t) {
		blob, result := codes(t, in)
		require.True(t, IsCoded(result.Plan), name)
		r := recordOf(in, &result)
		slots := values(in, &r)
		refused := map[fault.Kind]int{}
		try := func() {
			out, err := decode(s, in.Geometry, r, blob, slots, false)
			if err != nil {
				refused[fault.From(err).Kind]++
			} else {
				require.True(t, bytes.Equal(in.Target, out), name)
			}
		}
		step := 1
		if in.Geometry.Elements > 10000 {
			step = 15
		}
		for i := range min(len(blob), 60) {
			was := blob[i]
			for v := 0; v < 256; v += step {
				blob[i] = byte(v)
				try()
			}
			blob[i] = was
		}
		for i := 0; i < len(blob); i += step * (1 + len(blob)/3000) {
			blob[i] ^= 1 << (i % 8)
			try()
			blob[i] ^= 1 << (i % 8)
		}
		assert.Subset(t, []fault.Kind{fault.KindCorrupt, fault.KindUnsupported, fault.KindLimit}, keys(refused), name)
		assert.Greater(t, refused[fault.KindCorrupt], 100, name)
		assert.Greater(t, refused[fault.KindUnsupported], 10, name)

		for n := 0; n < len(blob); n += step * (1 + len(blob)/1000) {
			r.NBytes = uint64(n)
			_, err := decode(s, in.Geometry, r, blob[:n], slots, false)
			require.Error(t, err)
			require.Equal(t, fault.KindCorrupt, fault.From(err).Kind, "%s: %v", name, err)
		}
		r.NBytes = uint64(len(blob))

		r.Minor = 0
		_, err := decode(s, in.Geometry, r, blob, slots, false)
		require.Error(t, err)
		assert.Equal(t, fault.KindUnsupported, fault.From(err).Kind, "%s in a file of version 1.0: %v", name, err)
	}
}

// Another tensor in a slot is noticed, unless it is one whose own blob says what it is.
func TestOtherSlots(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	for name, in := range additions(t) {
		blob, result := codes(t, in)
		r := recordOf(in, &result)
		for i := range r.Slots {
			slots := bytesClone(values(in, &r))
			slots[i][len(slots[i])/2] ^= 0x40
			_, err := decode(s, in.Geometry, r, blob, slots, false)
			if r.Slots[i].Role == RoleValue {
				continue // it may not matter
			}
			var slot *SlotError
			require.ErrorAs(t, err, &slot, name)
			assert.Equal(t, i, slot.Slot)
		}
	}
}

// Headers that break one rule each; nothing but the rule may stop them, so the fingerprints hold.
func TestHostileFields(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	f32 := lookup(t, 3)
	const n = 96
	zero := make([]byte, 4*n)
	g := shaped(t, f32, 8, n/8)
	slots := func(list ...SlotRecord) []SlotRecord {
		for i := range list {
			if list[i].DType.ItemSize == 0 {
				list[i].DType = f32
			}
			list[i].Fingerprint = g.with(&list[i].DType).Fingerprint(make([]byte, n*list[i].DType.ItemSize))
		}
		return list
	}
	own, value, other := SlotRecord{Role: RoleReference}, SlotRecord{Role: RoleValue, Tensor: 2}, SlotRecord{Role: RoleOtherReference, Tensor: 2}
	of := func(s SlotRecord, code uint8) SlotRecord {
		s.DType = lookup(t, code)
		return s
	}
	plain := header{spec: specFor(&f32), tables: tablesParametric, tableLog: parametricTableLog, scale: 10}
	own1 := plain
	own1.spec.Predictor = predictReference
	exponents := own1
	exponents.spec.ContextPart = contextExponent
	program := func(p predict.Program) header {
		h := own1
		h.program = &p
		return h
	}
	prefix := func(b []byte, h header) []byte { return append(append(b, h.append(nil)...), bodyUnchanged) }
	blob := func(h header) []byte { return prefix(nil, h) }
	code := func(c uint8, slots ...uint8) predict.Program {
		p := predict.Program{Code: c}
		copy(p.Slots[:], slots)
		return p
	}
	decay := func(runs ...predict.Run) predict.Program { return predict.Program{Code: predict.Decay, Runs: runs} }
	once := predict.Run{C: 0.5, Count: 1}
	raw := func(h header, b ...byte) []byte { // the program in bytes
		h.program = nil
		all := h.append(nil)
		all[0] |= predictProgram
		all[0] &^= predictReference
		return append(append(append(append([]byte{}, all[:3]...), b...), all[3:]...), bodyUnchanged)
	}
	side := func(flags ...uint8) []byte {
		r := exactRows{exact: flags}
		b := r.side()
		return append(varint(uint64(len(b))), b...)
	}
	rows := func(rho uint64, p predict.Program, side []byte) []byte {
		return append(p.Append(varint(rho)), side...)
	}
	two := []uint8{1, 1, 0, 1, 1, 1, 1, 0}
	classes := func(first uint8, rho uint64, h header) []byte {
		b := h.append(nil)
		b[2] = contextClass
		return append(append(append(append([]byte{}, b[:4]...), append([]byte{first}, varint(rho)...)...), b[4:]...), bodyUnchanged)
	}
	ownTables := exponents
	ownTables.tables = tablesOwn
	beside := func(slot uint8, f func(*header)) []byte {
		h := plain
		h.beside = newBeside(int(slot), &f32)
		if f != nil {
			f(&h)
		}
		return blob(h)
	}
	for name, c := range map[string]struct {
		blob  []byte
		plan  uint8
		slots []SlotRecord
		kind  fault.Kind
	}{
		"valid, copy":               {blob(program(code(predict.Copy, 0))), PlanCoded, slots(value), 0},
		"valid, cast":               {blob(program(code(predict.Cast, 0))), PlanCoded, slots(of(value, 1)), 0},
		"valid, adam":               {blob(program(code(predict.AdamV, 2, 0, 1))), PlanCoded, slots(value, other, own), 0},
		"valid, a slot twice":       {blob(program(code(predict.AdamV, 0, 0, 0))), PlanCoded, slots(value), 0},
		"valid, 64 runs":            {blob(program(decay(repeated(once, 64)...))), PlanCoded, slots(own), 0},
		"valid, exponents":          {blob(exponents), PlanCoded, slots(own), 0},
		"valid, beside":             {beside(0, nil), PlanCoded, slots(own), 0},
		"valid, beside a double":    {beside(0, nil), PlanCoded, slots(of(value, 4)), 0},
		"valid, predictor and more": {beside(1, func(h *header) { h.spec.Predictor = predictReference }), PlanCoded, slots(own, value), 0},
		"valid, rows":               {prefix(rows(n/8, decay(once), side(two...)), own1), PlanRows, slots(own), 0},
		"valid, narrow":             {prefix([]byte{7}, own1), PlanNarrow, slots(own), 0},

		"predictor 3":             {append([]byte{3}, blob(plain)[1:]...), PlanCoded, slots(own), fault.KindUnsupported},
		"context part 5":          {append([]byte{0, blob(plain)[1], 5}, blob(plain)[3:]...), PlanCoded, nil, fault.KindUnsupported},
		"plan 6":                  {blob(plain), 6, nil, fault.KindUnsupported},
		"program 0":               {raw(own1, 0), PlanCoded, slots(own), fault.KindUnsupported},
		"program 7":               {raw(own1, 7, 0, 0, 0), PlanCoded, slots(own), fault.KindUnsupported},
		"slot beyond the list":    {blob(program(code(predict.Copy, 1))), PlanCoded, slots(value), fault.KindCorrupt},
		"no slots":                {blob(program(code(predict.Copy, 0))), PlanCoded, nil, fault.KindCorrupt},
		"copy of another dtype":   {blob(program(code(predict.Copy, 0))), PlanCoded, slots(of(value, 21)), fault.KindCorrupt},
		"cast of the same dtype":  {blob(program(code(predict.Cast, 0))), PlanCoded, slots(value), fault.KindCorrupt},
		"cast of integers":        {blob(program(code(predict.Cast, 0))), PlanCoded, slots(of(value, 21)), fault.KindCorrupt},
		"cast of complex values":  {blob(program(code(predict.Cast, 0))), PlanCoded, slots(of(value, 26)), fault.KindCorrupt},
		"decay of another dtype":  {raw(own1, 3, 0, 1, 0, 0, 0, 0, 0x3f, 1), PlanCoded, slots(of(value, 1)), fault.KindCorrupt},
		"decay without runs":      {raw(own1, 3, 0, 0), PlanCoded, slots(own), fault.KindCorrupt},
		"decay of 65 runs":        {blob(program(decay(repeated(once, 65)...))), PlanCoded, slots(own), fault.KindCorrupt},
		"decay of 0 steps":        {raw(own1, 3, 0, 1, 0, 0, 0, 0, 0x3f, 0), PlanCoded, slots(own), fault.KindCorrupt},
		"decay of 4097 steps":     {blob(program(decay(predict.Run{C: .5, Count: 4096}, once))), PlanCoded, slots(own), fault.KindCorrupt},
		"decay of 2^63 - 1 steps": {raw(own1, append([]byte{3, 0, 1, 0, 0, 0, 0, 0x3f}, varint(1<<63-1)...)...), PlanCoded, slots(own), fault.KindCorrupt},
		"decay of form 2":         {raw(own1, 3, 0, 1, 2, 0, 0, 0, 0x3f, 1), PlanCoded, slots(own), fault.KindCorrupt},
		"adam of doubles":         {blob(program(code(predict.AdamV, 0, 1, 0))), PlanCoded, slots(of(value, 4), own), fault.KindCorrupt},
		"program cut off":         {[]byte{predictProgram, blob(plain)[1], 0, 5, 0}, PlanCoded, slots(own), fault.KindCorrupt},
		"slot that is not used":   {blob(program(code(predict.Copy, 0))), PlanCoded, slots(value, own), fault.KindCorrupt},
		"predictor 1 without it":  {blob(own1), PlanCoded, slots(value), fault.KindCorrupt},
		"reference not used":      {blob(plain), PlanCoded, slots(own), fault.KindCorrupt},

		"beside slot 1 of 1":      {beside(1, nil), PlanCoded, slots(own), fault.KindCorrupt},
		"beside integers":         {beside(0, nil), PlanCoded, slots(of(value, 21)), fault.KindCorrupt},
		"beside complex values":   {beside(0, nil), PlanCoded, slots(of(value, 26)), fault.KindCorrupt},
		"beside with a slope":     {beside(0, func(h *header) { h.slope = 1 }), PlanCoded, slots(own), fault.KindCorrupt},
		"beside, narrow":          {append([]byte{7}, beside(0, nil)...), PlanNarrow, slots(own), fault.KindCorrupt},
		"classes with parameters": {classes(3, n/8, exponents), PlanCoded, slots(own), fault.KindCorrupt},
		"one class":               {classes(0, n/8, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"9 classes":               {classes(8, n/8, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"128 classes":             {classes(127, n/8, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"rows that do not divide": {classes(3, 5, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"rows of 0":               {classes(3, 0, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"rows of 2^63 - 1":        {classes(3, 1<<63-1, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"classes without a list":  {classes(3, n/8, ownTables), PlanCoded, slots(own), fault.KindCorrupt},
		"classes, predictor 0": {classes(3, n/8, func() header {
			h := ownTables
			h.spec.Predictor = predictNothing
			return h
		}()), PlanCoded, nil, fault.KindCorrupt},

		"narrow by 0":              {prefix([]byte{0}, own1), PlanNarrow, slots(own), fault.KindCorrupt},
		"narrow by 22":             {prefix([]byte{22}, own1), PlanNarrow, slots(own), fault.KindCorrupt},
		"narrow by 255":            {prefix([]byte{255}, own1), PlanNarrow, slots(own), fault.KindCorrupt},
		"narrow with a program":    {prefix([]byte{7}, program(code(predict.Copy, 0))), PlanNarrow, slots(value), fault.KindCorrupt},
		"narrow, plane too wide":   {prefix([]byte{16}, func() header { h := own1; h.spec.K = 16; return h }()), PlanNarrow, slots(own), fault.KindCorrupt},
		"exact rows of 0":          {prefix(rows(0, decay(once), side(two...)), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows of 7":          {prefix(rows(7, decay(once), side(two...)), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows, no side":      {prefix(rows(n/8, decay(once), []byte{0}), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows, none":         {prefix(rows(n/8, decay(once), side(make([]uint8, 8)...)), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows, all":          {prefix(rows(n/8, decay(once), side(repeated(uint8(1), 8)...)), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows, long side":    {prefix(rows(n/8, decay(once), varint(1<<63-1)), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows, a byte more":  {prefix(rows(n/8, decay(once), append(varint(uint64(len(side(two...)))), append(side(two...)[1:], 0)...)), own1), PlanRows, slots(own), fault.KindCorrupt},
		"exact rows, unknown":      {prefix(append(varint(n/8), 0), own1), PlanRows, slots(own), fault.KindUnsupported},
		"exact rows, body missing": {append(rows(n/8, decay(once), side(two...)), own1.append(nil)...), PlanRows, slots(own), fault.KindCorrupt},
		"sparse, not allowed":      {append(own1.append(nil), bodySparse, 1), PlanCoded, slots(own), fault.KindCorrupt},
	} {
		r := Record{Minor: 1, Plan: c.plan, NBytes: uint64(len(c.blob)), Fingerprint: g.Fingerprint(zero), Slots: c.slots}
		var data [][]byte
		for i := range c.slots {
			data = append(data, make([]byte, n*c.slots[i].DType.ItemSize))
		}
		out, err := decode(s, g, r, c.blob, data, false)
		if c.kind == 0 {
			if assert.NoError(t, err, name) {
				assert.Equal(t, zero, out, name)
			}
			continue
		}
		if assert.Error(t, err, name) {
			assert.Equal(t, c.kind, fault.From(err).Kind, "%s: %v", name, err)
		}
	}
}

func repeated[T any](v T, n int) (list []T) {
	for range n {
		list = append(list, v)
	}
	return list
}

// A list of so many rows that its side string cannot hold them is refused before anything is allocated for it.
func TestHostileLists(t *testing.T) {
	f32 := lookup(t, 3)
	g := shaped(t, f32, 1<<40, 1)
	p := predict.Program{Code: predict.Decay, Runs: []predict.Run{{C: 0.5, Count: 1}}}
	h := header{spec: specFor(&f32), tableLog: 12}
	h.spec.Predictor, h.spec.ContextPart = predictReference, contextExponent
	classes := h.append(nil)
	classes[2] = contextClass
	classes = append(append(append(append([]byte{}, classes[:4]...), 3, 1), classes[4:]...), bodyUnchanged)
	for name, b := range map[string][]byte{
		"classes":    classes,
		"exact rows": append(append(p.Append(varint(1)), 4, 1, 2, 3, 4), h.append(nil)...),
	} {
		plan := uint8(PlanCoded)
		if name == "exact rows" {
			plan = PlanRows
		}
		r := headerReader{Reader: wire.NewReader(b), g: &g, minor: 1, slots: []dtype.Info{f32}}
		_, err := r.read(plan)
		require.Error(t, err)
		assert.Equal(t, fault.KindLimit, fault.From(err).Kind, "%s: %v", name, err)
	}
}
