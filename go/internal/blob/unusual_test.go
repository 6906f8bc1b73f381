package blob

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/rans"
	"github.com/ulpack/ulpack/go/internal/testkit"
	"github.com/ulpack/ulpack/go/internal/transform"
	"github.com/ulpack/ulpack/go/internal/wire"
)

func lookup(t testing.TB, code uint8) dtype.Info {
	d, ok := dtype.Lookup(code)
	require.True(t, ok)
	return d
}

func vector(t testing.TB, d dtype.Info, n int) Geometry {
	g, err := NewGeometry(d, []uint64{uint64(n)})
	require.NoError(t, err)
	return g
}

// pair returns a target and a reference of n elements: training steps, or edge patterns where wild is set.
func pair(d dtype.Info, n int, wild bool, seed uint64) (target, ref []byte) {
	if !wild && d.Float {
		return testkit.Float(n*d.Components, d.Width, d.ExpBits, d.MantBits, 0.01, seed)
	}
	rng := testkit.Rand(seed)
	edges := testkit.Edges(d.Width, d.Float, d.ExpBits, d.MantBits)
	target, ref = make([]byte, n*d.ItemSize), make([]byte, n*d.ItemSize)
	for i := range n * d.Components {
		v := edges[rng.IntN(len(edges))]
		if !wild {
			v = rng.Uint64N(100)
		}
		testkit.PutLane(ref, i, d.Width, v)
		testkit.PutLane(target, i, d.Width, v+rng.Uint64N(3)*rng.Uint64N(200))
	}
	return target, ref
}

// specs are the ways of coding that the format allows for a dtype, more than the canonical encoder uses.
func specs(d dtype.Info, target []byte) (all []transform.Spec) {
	base := specFor(&d)
	add := func(f func(*transform.Spec)) {
		s := base
		f(&s)
		all = append(all, s)
	}
	if d.Width == 8 {
		add(func(s *transform.Spec) { s.Map = mapDirect })
		add(func(s *transform.Spec) { s.Map, s.Predictor = mapDirect, predictReference })
		add(func(s *transform.Spec) { s.Map, s.Predictor, s.ContextPart = mapDirect, predictReference, contextByte })
		return all
	}
	for k := 0; k <= maxPlane && k < d.Width; k += 8 {
		add(func(s *transform.Spec) { s.K = k })
		add(func(s *transform.Spec) { s.K, s.Predictor = k, predictReference })
		if !d.Float {
			continue
		}
		for _, expBase := range []uint32{0, 5, 1 << d.ExpBits} {
			add(func(s *transform.Spec) {
				s.K, s.Predictor, s.ContextPart, s.ExpBase = k, predictReference, contextExponent, expBase
			})
		}
	}
	if !d.Float {
		return all
	}
	zs := make([]uint64, len(target)/(d.Width/8))
	base.Zs(zs, target, nil)
	lo, hi := ^uint64(0), uint64(0)
	for _, z := range zs {
		if z != 0 {
			lo, hi = min(lo, z), max(hi, z)
		}
	}
	for t := 1; t < d.Width; t++ {
		for k := 0; k <= min(t, maxPlane); k += 8 {
			if hi>>t-lo>>t+2 > 250 {
				continue
			}
			add(func(s *transform.Spec) {
				s.Map, s.T, s.K, s.Base = mapLeading, t, k, lo>>t
				s.A = int(hi>>t-s.Base) + 2 + t%3 // sometimes with tokens that do not occur
			})
		}
	}
	return all
}

// craft codes a value of one chunk in an unusual way.
func craft(t testing.TB, spec transform.Spec, target, ref []byte, tableLog, laneCode int) []byte {
	var k kept
	k.start(len(target) / (spec.Width / 8))
	head := header{spec: spec}
	k.add(&head, &view{lanes: len(target) / (spec.Width / 8), target: target, ref: ref}, new(looker))
	var h model.Histogram
	h.Reset(spec.Contexts(), spec.Alphabet())
	h.Add(k.ix)
	tables := model.Build(&h, head.paramSpec())
	head.setTables(tables)
	if !tables.Parametric {
		var err error
		tables, err = model.ReadSide(head.side, spec.Contexts(), spec.Alphabet(), tableLog)
		require.NoError(t, err)
		head.tableLog = tableLog
	}
	blob := head.append(nil)

	var coder rans.EncTables
	coder.Build(tables.Freq, tables.TableLog)
	var states [rans.MaxLanes]uint32
	lanes := 1 << (2 * laneCode)
	words := coder.Encode(k.ix, tables.ContextMap, lanes, make([]byte, 2*len(k.ix)), states[:])
	blob = append(blob, bodyCoded|uint8(laneCode)<<bodyKindBits)
	blob = wire.AppendVarint(blob, uint64(len(words)/2))
	for _, x := range states[:lanes] {
		blob = binary.LittleEndian.AppendUint32(blob, x)
	}
	plane, tail := k.raw.Finish()
	return append(append(append(blob, words...), plane...), tail...)
}

// record describes a coded blob.
func record(g *Geometry, blob, target, ref []byte, needsReference bool) Record {
	r := Record{Minor: 1, Plan: PlanCoded, NBytes: uint64(len(blob)), Fingerprint: g.Fingerprint(target)}
	if needsReference {
		r.Slots = []SlotRecord{{Role: RoleReference, DType: g.DType, Fingerprint: g.Fingerprint(ref)}}
	}
	return r
}

// decodeAll opens a blob and decodes all chunks.
func decodeAll(s *Scratch, g Geometry, r Record, blob, ref []byte) ([]byte, error) {
	d := s.Decoder()
	err := d.Open(g, r, func(from, to uint64) ([]byte, error) { return blob[from:to:to], nil })
	if err != nil {
		return nil, err
	}
	if err := d.CheckConstant(s); err != nil {
		return nil, err
	}
	out := make([]byte, g.NBytes())
	for j := range g.Chunks() {
		from, to := g.Chunk(j)
		var slots [][]byte
		if len(r.Slots) > 0 {
			slots = [][]byte{ref[from:to]}
		}
		first, last := d.Extent(j)
		if err := d.Chunk(j, out[from:to], slots, blob[first:last:last], s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func TestUnusualButValid(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	rng := rand.New(rand.NewPCG(1, 1))
	codes := 0
	for _, d := range append(dtype.All(), dtype.Named("rgb", 3)) {
		for _, wild := range []bool{false, true} {
			for _, n := range []int{1, 3, 700} {
				target, ref := pair(d, n, wild, uint64(n))
				g := vector(t, d, n)
				for _, spec := range specs(d, target) {
					require.True(t, spec.Valid())
					r := ref
					if spec.Predictor == predictNothing {
						r = nil
					}
					blob := craft(t, spec, target, r, 8+rng.IntN(5), rng.IntN(4))
					out, err := decodeAll(s, g, record(&g, blob, target, r, r != nil), blob, r)
					require.NoError(t, err, "%s %+v", d.Name, spec)
					require.Equal(t, target, out, "%s %+v", d.Name, spec)
					codes++
				}
			}
		}
	}
	assert.Greater(t, codes, 2000)
}

// Every byte of a header in turn set to every value: an error of the right kind, or the same value.
func TestHostileHeaders(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	for _, c := range []struct {
		code      uint8
		reference bool
	}{{1, true}, {1, false}, {3, true}, {3, false}, {4, true}, {5, true}, {5, false}, {23, true}, {26, true}} {
		d := lookup(t, c.code)
		target, ref := pair(d, 150, false, 1)
		if !c.reference {
			ref = nil
		}
		g := vector(t, d, 150)
		blob, result := s.Encode(nil, Input{Geometry: g, Target: target, Ref: ref}, func(b []byte, _ Result) []byte { return b })
		require.EqualValues(t, PlanCoded, result.Plan, d.Name)
		r := record(&g, blob, target, ref, len(result.Slots) > 0)
		refused := map[fault.Kind]int{}
		for i := range min(len(blob), 40) {
			was := blob[i]
			for v := range 256 {
				blob[i] = byte(v)
				out, err := decodeAll(s, g, r, blob, ref)
				if err != nil {
					refused[fault.From(err).Kind]++
				} else {
					require.Equal(t, target, out)
				}
			}
			blob[i] = was
		}
		assert.Subset(t, []fault.Kind{fault.KindCorrupt, fault.KindUnsupported}, keys(refused), d.Name)
		assert.Greater(t, refused[fault.KindUnsupported], 100, d.Name)
	}
}

func keys[K comparable, V any](m map[K]V) (list []K) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

// Blobs that break one rule each; nothing but the rule may stop them, so the fingerprints hold.
func TestHostileBlobs(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	d := lookup(t, 3)
	g := vector(t, d, 4)
	zero := make([]byte, 16)
	plain := header{spec: specFor(&d), tables: tablesParametric, tableLog: parametricTableLog, scale: 10}
	plain.spec.K = 16
	leading := plain
	leading.spec.Map, leading.spec.T, leading.spec.K, leading.spec.Base, leading.spec.A = mapLeading, 22, 16, 508, 4
	with := plain
	with.spec.Predictor = predictReference

	change := func(h header, f func(*header)) []byte {
		f(&h)
		return append(h.append(nil), bodyUnchanged)
	}
	for name, c := range map[string]struct {
		blob []byte
		kind fault.Kind
	}{
		"valid":                         {change(plain, func(*header) {}), 0},
		"valid, leading":                {change(leading, func(*header) {}), 0},
		"valid, with reference":         {change(with, func(*header) {}), 0},
		"predictor 2":                   {change(plain, func(h *header) { h.spec.Predictor = 2 }), fault.KindUnsupported},
		"token map 3":                   {change(plain, func(h *header) { h.spec.Map = 3 }), fault.KindUnsupported},
		"tables 3":                      {change(plain, func(h *header) { h.tables = 3 }), fault.KindUnsupported},
		"context part 3":                {change(plain, func(h *header) { h.spec.ContextPart = 3 }), fault.KindUnsupported},
		"plane of 56 bits":              {change(plain, func(h *header) { h.spec.K = 56 }), fault.KindCorrupt},
		"plane as wide as the lane":     {change(plain, func(h *header) { h.spec.K = 32 }), fault.KindCorrupt},
		"direct tokens of wide lanes":   {change(plain, func(h *header) { h.spec.Map, h.spec.K = mapDirect, 0 }), fault.KindCorrupt},
		"leading with a reference":      {change(leading, func(h *header) { h.spec.Predictor = predictReference }), fault.KindCorrupt},
		"exponents without a reference": {change(plain, func(h *header) { h.spec.ContextPart = contextExponent }), fault.KindCorrupt},
		"bytes of wide lanes":           {change(with, func(h *header) { h.spec.ContextPart = contextByte }), fault.KindCorrupt},
		"parametric with tableLog 11":   {change(plain, func(h *header) { h.tableLog = 11 }), fault.KindCorrupt},
		"tableLog 13":                   {change(plain, func(h *header) { h.tableLog = 13 }), fault.KindCorrupt},
		"shape 5":                       {change(plain, func(h *header) { h.shape = 5 }), fault.KindCorrupt},
		"slope 2":                       {change(with, func(h *header) { h.slope, h.spec.ContextPart = 2, contextExponent }), fault.KindCorrupt},
		"slope without exponents":       {change(plain, func(h *header) { h.slope = 1 }), fault.KindCorrupt},
		"scale 161":                     {change(plain, func(h *header) { h.scale = 161 }), fault.KindCorrupt},
		"cut below the plane":           {change(leading, func(h *header) { h.spec.T = 15 }), fault.KindCorrupt},
		"cut at bit 0":                  {change(leading, func(h *header) { h.spec.T, h.spec.K = 0, 0 }), fault.KindCorrupt},
		"cut at the width":              {change(leading, func(h *header) { h.spec.T = 32 }), fault.KindCorrupt},
		"one token":                     {change(leading, func(h *header) { h.spec.A = 1 }), fault.KindCorrupt},
		"parametric, another cut":       {change(leading, func(h *header) { h.spec.T = 21 }), fault.KindCorrupt},
		"side string beyond the blob":   {append([]byte{0, 3 << tableLogShift, 0}, varint(1<<20)...), fault.KindCorrupt},
		"side string of 2^63 - 1 bytes": {append([]byte{0, 3 << tableLogShift, 0}, varint(1<<63-1)...), fault.KindCorrupt},
		"empty side string":             {[]byte{0, 3 << tableLogShift, 0, 0, bodyUnchanged}, fault.KindCorrupt},
		"header alone":                  {plain.append(nil), fault.KindCorrupt},
		"nothing":                       {nil, fault.KindCorrupt},
		"chunk kind 3":                  {append(plain.append(nil), 3), fault.KindUnsupported},
		"high bits of the chunk kind":   {append(plain.append(nil), bodyUnchanged|0x10), fault.KindCorrupt},
		"lanes of an unchanged chunk":   {append(plain.append(nil), bodyUnchanged|4), fault.KindCorrupt},
		"byte after an unchanged chunk": {append(plain.append(nil), bodyUnchanged, 0), fault.KindCorrupt},
		"stored, short":                 {append(append(plain.append(nil), bodyStored), zero[:15]...), fault.KindCorrupt},
		"stored, long":                  {append(append(append(plain.append(nil), bodyStored), zero...), 0), fault.KindCorrupt},
		"stored":                        {append(append(plain.append(nil), bodyStored), zero...), 0},
		"2^62 words":                    {append(append(plain.append(nil), bodyCoded), varint(1<<62)...), fault.KindCorrupt},
		"5 words for 4 values":          {append(append(plain.append(nil), bodyCoded), make([]byte, 40)...), fault.KindCorrupt},
		"no states":                     {append(plain.append(nil), bodyCoded, 0), fault.KindCorrupt},
		"states 0":                      {append(append(plain.append(nil), bodyCoded, 0), zero...), fault.KindCorrupt},
		"states 2^31":                   {append(append(plain.append(nil), bodyCoded, 0), 0, 0, 0, 0x80), fault.KindCorrupt},
		"states 2^15, 64 lanes":         {append(plain.append(nil), bodyCoded|3<<bodyKindBits, 0, 0, 0x80, 0, 0), fault.KindCorrupt},
	} {
		withReference := len(c.blob) > 0 && c.blob[0]&0xf == predictReference
		r := record(&g, c.blob, zero, zero, withReference)
		r.Minor = 0 // what version 1.0 reserves
		out, err := decodeAll(s, g, r, c.blob, zero)
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

func varint(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// Words, raw plane and tail that are longer or shorter than the values need.
func TestHostileBodies(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	for _, code := range []uint8{1, 3, 4, 5, 23} {
		d := lookup(t, code)
		target, ref := pair(d, 500, false, 3)
		g := vector(t, d, 500)
		blob, result := s.Encode(nil, Input{Geometry: g, Target: target, Ref: ref}, func(b []byte, _ Result) []byte { return b })
		require.EqualValues(t, PlanCoded, result.Plan)
		try := func(b []byte) error {
			_, err := decodeAll(s, g, record(&g, b, target, ref, len(result.Slots) > 0), b, ref)
			return err
		}
		require.NoError(t, try(blob))
		assert.Error(t, try(append(blob[:len(blob):len(blob)], 0)), "a byte more")
		for n := range blob {
			err := try(blob[:n])
			require.Error(t, err)
			require.Equal(t, fault.KindCorrupt, fault.From(err).Kind, "%d of %d bytes: %v", n, len(blob), err)
		}
	}
}

func TestHostileChunkTables(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	d := lookup(t, 16)
	n := 2*dtype.ChunkElements + 5
	g := vector(t, d, n)
	target, ref := pair(d, n, false, 1)
	target[0]++ // not equal to the reference
	blob, result := s.Encode(nil, Input{Geometry: g, Target: target, Ref: ref}, func(b []byte, _ Result) []byte { return b })
	require.EqualValues(t, PlanCoded, result.Plan)
	r := record(&g, blob, target, ref, true)
	_, err := decodeAll(s, g, r, blob, ref)
	require.NoError(t, err)
	size := int(binary.LittleEndian.Uint32(blob[len(blob)-4:]))
	for i := len(blob) - 4 - size; i < len(blob); i++ {
		for bit := range 8 {
			blob[i] ^= 1 << bit
			_, err := decodeAll(s, g, r, blob, ref)
			require.Error(t, err, fmt.Sprint(i))
			require.Equal(t, fault.KindCorrupt, fault.From(err).Kind)
			blob[i] ^= 1 << bit
		}
	}
	for _, end := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", ""} {
		b := append(blob[:len(blob)-4:len(blob)-4], end...)
		_, err := decodeAll(s, g, record(&g, b, target, ref, true), b, ref)
		require.Error(t, err)
		require.Equal(t, fault.KindCorrupt, fault.From(err).Kind)
	}
}
