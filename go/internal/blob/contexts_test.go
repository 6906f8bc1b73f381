package blob

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/testkit"
)

// rowsOf is a tensor whose rows changed by very different amounts.
func rowsOf(t testing.TB, d dtype.Info, rows, rho int, spread float64) Input {
	n := rows * rho
	_, ref := testkit.Float(n, d.Width, d.ExpBits, d.MantBits, 0, uint64(n))
	target := make([]byte, len(ref))
	rng := testkit.Rand(9)
	for row := range rows {
		scale := math.Exp(spread * rng.NormFloat64())
		for i := row * rho; i < (row+1)*rho; i++ {
			v := testkit.Lane(ref, i, d.Width)
			testkit.PutLane(target, i, d.Width, v+uint64(int64(rng.NormFloat64()*scale)))
		}
	}
	return Input{Geometry: shaped(t, d, uint64(rows), uint64(rho)), Target: target, Ref: ref}
}

func TestRowClasses(t *testing.T) {
	for _, code := range []uint8{1, 2, 3} {
		for _, shape := range [][2]int{{300, 200}, {4000, 300}, {700, 333}} {
			in := rowsOf(t, lookup(t, code), shape[0], shape[1], 3)
			if code == 3 { // K = 0 needs small differences, which these are
				require.EqualValues(t, 32, in.Geometry.DType.Width)
			}
			blob, r := codes(t, in)
			assert.EqualValues(t, contextClass, r.Detail.ContextPart, "dtype %d, %d x %d", code, shape[0], shape[1])
			assert.Greater(t, r.Detail.Classes, 4)
			in.Fast = true
			plain, _ := codes(t, in)
			assert.Less(t, float64(len(blob)), 0.95*float64(len(plain)))
		}
	}
}

// With fewer lane values, alike rows or one row nothing is gained.
func TestNoRowClasses(t *testing.T) {
	d := lookup(t, 1)
	small := rowsOf(t, d, 100, 300, 3)
	alike := rowsOf(t, d, 300, 300, 0)
	flat := rowsOf(t, d, 300, 300, 3)
	flat.Geometry = vector(t, d, 90000)
	for name, in := range map[string]Input{"small": small, "alike": alike, "one dimension": flat} {
		_, r := codes(t, in)
		assert.Zero(t, r.Detail.Classes, name)
	}
}

// Classes of columns, and classes without sense, which this encoder does not write.
func TestUnusualClasses(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	rng := testkit.Rand(3)
	for _, code := range []uint8{1, 3, 4} {
		in := rowsOf(t, lookup(t, code), 700, 333, 3)
		if code == 4 {
			in.Geometry = vector(t, lookup(t, 4), 700*333)
			in.Target, in.Ref = pair(lookup(t, 4), 700*333, false, 5)
		}
		for _, columns := range []bool{false, true} {
			for _, rho := range []uint64{1, 7, 333, 700 * 333} {
				c := &classes{n: 2 + rng.IntN(model.MaxClasses-1), columns: columns, rho: rho}
				if c.entries = 700 * 333 / rho; columns {
					c.entries = rho
				}
				c.list = make([]uint8, c.entries)
				for i := range c.list {
					c.list[i] = uint8(rng.IntN(c.n))
				}
				e := NewEncoder(in, 1)
				e.in.Fast = true
				e.Choose(s)
				require.EqualValues(t, contextExponent, e.head.spec.ContextPart)
				e.head.classes, e.tried, e.fewChange = c, nil, false
				e.Scan(0, 0, s)
				h := e.counts()
				e.model = model.BuildClassed(h, e.head.paramSpec(), c.list)
				if e.model == nil { // not worth it: say so less politely
					e.model = forceClasses(h, e.head.paramSpec(), c.list)
				}
				e.head.setTables(e.model)
				e.memory = e.head.append(nil)
				e.buildCoder()
				blob := e.AppendBody(e.memory, 0, s)
				r := Result{Plan: PlanCoded, NBytes: uint64(len(blob)), Slots: []SlotRecord{{DType: in.Geometry.DType, Fingerprint: in.Geometry.Fingerprint(in.Ref)}}}
				decodes(t, s, in, blob, &r)
			}
		}
	}
}

// forceClasses are tables with a cluster a class.
func forceClasses(h *model.Histogram, p model.ParamSpec, list []uint8) *model.Tables {
	var flat model.Histogram
	flat.Reset(1, p.A)
	for context := range p.Contexts() {
		for token := range p.A {
			flat.AddCount(0, token, h.Count(context, token))
		}
	}
	t := model.Build(&flat, model.ParamSpec{Map: p.Map, K: p.K, MantBits: p.MantBits, A: p.A})
	t.Classes, t.ClassList = p.Classes, list
	t.ContextMap = make([]uint8, p.Contexts())
	return t
}

// A tensor whose exponents follow those of another one.
func TestContextsBeside(t *testing.T) {
	for _, c := range []struct{ own, other uint8 }{{3, 3}, {3, 1}, {1, 3}, {1, 1}, {2, 4}, {4, 2}, {3, 4}} {
		d, o := lookup(t, c.own), lookup(t, c.other)
		for _, n := range []int{3000, 2*dtype.ChunkElements + 1, 5*dtype.ChunkElements + 7} {
			rng := testkit.Rand(uint64(n))
			target, other := make([]byte, n*d.ItemSize), make([]byte, n*o.ItemSize)
			for i := range n {
				level := math.Exp2(float64(rng.IntN(20) - 18))
				testkit.PutLane(other, i, o.Width, testkit.Round(level*(1+rng.Float64()), o.ExpBits, o.MantBits))
				testkit.PutLane(target, i, d.Width, testkit.Round(level/4*(1+rng.Float64())*(2*float64(rng.IntN(2))-1), d.ExpBits, d.MantBits))
			}
			in := Input{Geometry: vector(t, d, n), Target: target}
			in.Beside = &Slot{Role: RoleValue, Tensor: 3, DType: o, Data: other}
			blob, r := codes(t, in)
			require.EqualValues(t, contextBeside, r.Detail.ContextPart, "%s beside %s", d.Name, o.Name)
			require.Len(t, r.Slots, 1)
			in.Beside = nil
			alone, _ := codes(t, in)
			assert.Less(t, len(blob)+n/8, len(alone))
			if c.own != c.other {
				continue
			}
			in.Ref = other // the own reference
			_, r = codes(t, in)
			assert.EqualValues(t, contextBeside, r.Detail.ContextPart)
			assert.EqualValues(t, RoleReference, r.Slots[0].Role)
		}
	}
}
