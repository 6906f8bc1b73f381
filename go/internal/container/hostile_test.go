package container

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
)

func kindOf(t *testing.T, err error) fault.Kind {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	return e.Kind
}

// allocated is the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const modest = 4 << 20 // bytes that reading a small hostile file may allocate

// Directories that break one rule each, in files whose checksums hold.
func TestHostileDirectories(t *testing.T) {
	valid, _, _ := one(t, 100)
	f32, x, noRef := []byte{3}, varints(1, 100), []byte{0}
	valid.minor = 0
	valid.plain = valid.plain[:len(valid.plain)-1] // without the order of blobs
	for name, c := range map[string]struct {
		plain []byte
		kind  fault.Kind
	}{
		"empty":                         {nil, fault.KindCorrupt},
		"byte after the end":            {append(bytes.Clone(valid.plain), 0), fault.KindCorrupt},
		"2^63 - 1 tensors":              {varints(1, 2, 0, 0, 1<<63-1), fault.KindLimit},
		"2^24 tensors":                  {varints(1, 2, 0, 0, 1<<24), fault.KindCorrupt},
		"more tensors than the tail":    {varints(1, 2, 0, 0, 50), fault.KindCorrupt},
		"metadata of 2^63 - 1 bytes":    {varints(1, 2, 1<<63-1), fault.KindCorrupt},
		"metadata that is not UTF-8":    {append(varints(1, 2, 1), 0xff, 0, 0), fault.KindCorrupt},
		"structure beyond the end":      {varints(1, 2, 0, 1000), fault.KindCorrupt},
		"name of 2^62 bytes":            {varints(1, 2, 0, 0, 1, 1<<62), fault.KindCorrupt},
		"name that is not UTF-8":        {directoryOf("\xc0\x80", f32, x, noRef), fault.KindCorrupt},
		"varint 2^63":                   {varints(1, 2, 0, 0, 1, 1<<63), fault.KindCorrupt},
		"varint not shortest":           {[]byte{0x81, 0, 2, 0, 0, 0}, fault.KindCorrupt},
		"dtype 15":                      {directoryOf("x", []byte{15}, x, noRef), fault.KindUnsupported},
		"dtype 255":                     {directoryOf("x", []byte{255}, x, noRef), fault.KindUnsupported},
		"dtype name of 4097 bytes":      {directoryOf("x", append(varints(0, 4097), strings.Repeat("a", 5000)...), x, noRef), fault.KindLimit},
		"dtype name that is not UTF-8":  {directoryOf("x", []byte{0, 1, 0xff, 4}, x, noRef), fault.KindCorrupt},
		"element of 0 bytes":            {directoryOf("x", varints(0, 0, 0), x, noRef), fault.KindLimit},
		"element of 2^20 + 1 bytes":     {directoryOf("x", varints(0, 0, 1<<20+1), x, noRef), fault.KindLimit},
		"65 dimensions":                 {directoryOf("x", f32, varints(append([]uint64{65}, make([]uint64, 65)...)...), noRef), fault.KindLimit},
		"2^63 - 1 dimensions":           {directoryOf("x", f32, varints(1<<63-1), noRef), fault.KindLimit},
		"2^58 elements of 4 bytes":      {directoryOf("x", f32, varints(1, 1<<58), noRef), fault.KindLimit},
		"product of dimensions wraps":   {directoryOf("x", f32, varints(2, 1<<62, 1<<3), noRef), fault.KindLimit},
		"reference name beyond the end": {directoryOf("x", f32, x, varints(1<<63-1)), fault.KindCorrupt},
		"reference name not UTF-8":      {directoryOf("x", f32, x, append(varints(2), 0xff)), fault.KindCorrupt},
		"own name spelled out":          {directoryOf("x", f32, x, append(varints(2), 'x')), fault.KindCorrupt},
	} {
		file := valid
		file.plain = c.plain
		b := file.file()
		var err error
		used := allocated(func() { _, err = ReadIndex(bytes.NewReader(b), int64(len(b))) })
		assert.Equal(t, c.kind, kindOf(t, err), "%s: %v", name, err)
		assert.Less(t, used, uint64(modest), name)
	}
}

func TestDuplicateNames(t *testing.T) {
	c, _, _ := one(t, 100)
	entry := c.tail
	c.plain = append(varints(1, 2, 0, 0, 2), "\x01a\x01a\x03\x03"...)
	c.plain = append(c.plain, varints(1, 100, 1, 100, 0, 0)...)
	c.blobs = append(bytes.Clone(c.blobs), c.blobs...)
	c.tail = append(bytes.Clone(entry), entry...)
	_, err := ReadIndex(bytes.NewReader(c.file()), int64(len(c.file())))
	assert.Equal(t, fault.KindCorrupt, kindOf(t, err))
	assert.ErrorContains(t, err, "twice")
}

func TestHostileFronts(t *testing.T) {
	valid, _, data := one(t, 100)
	good := valid.file()
	require.NoError(t, loadOne(good, 400, data.Ref))
	change := func(at int, b ...byte) []byte {
		file := bytes.Clone(good)
		copy(file[at:], b)
		n := binary.LittleEndian.Uint32(file[12:])
		if n < uint32(len(file)) {
			binary.LittleEndian.PutUint32(file[20:], frontChecksum(file[8:20], file[prefixLen:prefixLen+n]))
		}
		return file
	}
	u32 := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	for name, c := range map[string]struct {
		file []byte
		kind fault.Kind
	}{
		"major 0":                      {change(8, 0), fault.KindUnsupported},
		"major 2":                      {change(8, 2), fault.KindUnsupported},
		"minor 2":                      {change(9, 2), fault.KindUnsupported},
		"reserved field":               {change(10, 1), fault.KindCorrupt},
		"coded length of 2^32 - 1":     {change(12, u32(1<<32-1)...), fault.KindTruncated},
		"plain length above the limit": {change(16, u32(1<<28+1)...), fault.KindLimit},
		"plain length above the ratio": {change(16, u32(1<<27)...), fault.KindLimit},
		"plain length too long":        {change(16, u32(60000)...), fault.KindCorrupt},
		"plain length 0":               {change(16, u32(0)...), fault.KindCorrupt},
		"plain length too short":       {change(16, u32(uint32(len(valid.plain)-1))...), fault.KindCorrupt},
	} {
		var err error
		used := allocated(func() { err = loadOne(c.file, 400, data.Ref) })
		assert.Equal(t, c.kind, kindOf(t, err), "%s: %v", name, err)
		assert.Less(t, used, uint64(modest), name)
	}
}

// Footers and tails that break one rule each, with a hash that holds.
func TestHostileTails(t *testing.T) {
	valid, d, data := one(t, 100)
	tail := func(change func(*Entry)) []byte {
		x, err := ReadIndex(bytes.NewReader(valid.file()), int64(len(valid.file())))
		require.NoError(t, err)
		change(&x.Tensors[0])
		return marshalTail(x.Tensors)
	}
	for name, c := range map[string]struct {
		tail []byte
		kind fault.Kind
	}{
		"empty":                   {nil, fault.KindCorrupt},
		"byte after the end":      {append(bytes.Clone(valid.tail), 0), fault.KindCorrupt},
		"cut":                     {valid.tail[:len(valid.tail)-1], fault.KindCorrupt},
		"blob one byte longer":    {tail(func(e *Entry) { e.Tail.NBytes++ }), fault.KindCorrupt},
		"blob one byte shorter":   {tail(func(e *Entry) { e.Tail.NBytes-- }), fault.KindCorrupt},
		"blob of 2^63 - 1 bytes":  {tail(func(e *Entry) { e.Tail.NBytes = 1<<63 - 1 }), fault.KindCorrupt},
		"another plan":            {tail(func(e *Entry) { e.Tail.Plan, e.Tail.Slots = blob.PlanStored, nil }), fault.KindCorrupt},
		"reserved plan":           {tail(func(e *Entry) { e.Tail.Plan = 6 }), fault.KindCorrupt}, // the blob's prefix says otherwise
		"stored with a reference": {tail(func(e *Entry) { e.Tail.Plan = blob.PlanStored }), fault.KindCorrupt},
		"identical without one":   {tail(func(e *Entry) { e.Tail.Plan, e.Tail.Slots = blob.PlanIdentical, nil }), fault.KindCorrupt},
		"coded without one":       {tail(func(e *Entry) { e.Tail.Slots = nil }), fault.KindCorrupt},
		"another fingerprint":     {tail(func(e *Entry) { e.Tail.Fingerprint ^= 1 }), fault.KindCorrupt},
		"another checksum":        {tail(func(e *Entry) { e.Tail.Checksum ^= 1 }), fault.KindCorrupt},
		"another reference":       {tail(func(e *Entry) { e.Tail.Slots[0].Fingerprint ^= 1 }), fault.KindReference},
	} {
		file := valid
		file.tail = c.tail
		err := loadOne(file.file(), 400, data.Ref)
		assert.Equal(t, c.kind, kindOf(t, err), "%s: %v", name, err)
	}

	roles := bytes.Clone(valid.tail)
	at := bytes.Index(roles, []byte{1, blob.RoleReference})
	roles[at+1] = 7
	valid.tail = roles
	err := loadOne(valid.file(), 400, data.Ref)
	assert.Equal(t, fault.KindUnsupported, kindOf(t, err), "role 7")
	roles[at+1] = blob.RoleReference
	twice := append(bytes.Clone(roles[:at]), 2)
	twice = append(append(twice, roles[at+1:at+10]...), roles[at+1:]...)
	valid.tail = twice
	assert.Equal(t, fault.KindCorrupt, kindOf(t, loadOne(valid.file(), 400, data.Ref)), "role 0 twice")
	many := append(bytes.Clone(roles[:at]), varints(1<<63-1)...)
	valid.tail = append(many, roles[at+1:]...)
	assert.Equal(t, fault.KindCorrupt, kindOf(t, loadOne(valid.file(), 400, data.Ref)), "2^63 - 1 roles")

	// A reference that the directory does not know of.
	valid, _, _ = one(t, 100)
	d.Tensors[0].HasReference = false
	valid.plain = d.marshal()
	assert.Equal(t, fault.KindCorrupt, kindOf(t, loadOne(valid.file(), 400, data.Ref)))
}

func TestHostileFooter(t *testing.T) {
	valid, _, data := one(t, 100)
	good := valid.file()
	end := len(good) - footerLen
	for name, change := range map[string]func(footer []byte){
		"tail offset + 1":    func(f []byte) { f[0]++ },
		"tail offset 2^63":   func(f []byte) { f[7] = 0x80 },
		"tail offset 2^64-1": func(f []byte) { copy(f, "\xff\xff\xff\xff\xff\xff\xff\xff") },
		"tail length + 1":    func(f []byte) { f[8]++ },
		"tail length 2^32-1": func(f []byte) { copy(f[8:], "\xff\xff\xff\xff") },
		"reserved field":     func(f []byte) { f[12] = 1 },
	} {
		file := bytes.Clone(good)
		change(file[end:])
		at := binary.LittleEndian.Uint64(good[end:])
		binary.LittleEndian.PutUint64(file[end+16:], blob.Hash(file[at:end+16]))
		err := loadOne(file, 400, data.Ref)
		assert.Equal(t, fault.KindCorrupt, kindOf(t, err), "%s: %v", name, err)
	}
	gap := valid
	gap.blobs = append(bytes.Clone(gap.blobs), 0)
	assert.Equal(t, fault.KindCorrupt, kindOf(t, loadOne(gap.file(), 400, data.Ref)), "a hole before the tail")
	cover := bytes.Clone(good[:end])
	assert.Equal(t, fault.KindTruncated, kindOf(t, loadOne(cover, 400, data.Ref)))
}

// Huge tensors that a few bytes declare: no memory, no time.
func TestHugeDeclarations(t *testing.T) {
	entry := func(plan uint8, n uint64, role bool) []byte {
		e := TailEntry{Plan: plan, NBytes: n}
		if role {
			e.Slots = []blob.SlotRecord{{Role: blob.RoleReference}}
		}
		return e.append(nil)
	}
	for name, c := range map[string]struct {
		tail, blobs []byte
		kind        fault.Kind
	}{
		"constant":  {entry(blob.PlanConstant, 4, false), []byte{2, 4, 0, 0, 0, 0}, fault.KindLimit},
		"identical": {entry(blob.PlanIdentical, 0, true), []byte{1, 0}, fault.KindCorrupt},
		"stored":    {entry(blob.PlanStored, 4, false), []byte{0, 4, 0, 0, 0, 0}, fault.KindCorrupt},
		"coded":     {entry(blob.PlanCoded, 4, false), []byte{3, 4, 0, 0, 0, 0}, fault.KindCorrupt},
	} {
		f := crafted{plain: directoryOf("x", []byte{3}, varints(1, 1<<57), []byte{1}), blobs: c.blobs, tail: c.tail}
		file := f.file()
		item := Item{Count: All}
		var err error
		used := allocated(func() {
			err = Load(bytes.NewReader(file), int64(len(file)), []Item{item}, LoadOptions{VerifyOnly: true, Options: Options{Threads: 2}})
		})
		assert.Equal(t, c.kind, kindOf(t, err), "%s: %v", name, err)
		assert.Less(t, used, uint64(modest), name)
	}
}

// A row of tensors that share nothing but would each need a lot.
func TestManyTensorsTakeLittleMemory(t *testing.T) {
	const n = 1 << 16
	f := crafted{plain: varints(1, 2, 0, 0, n)}
	var empty TailEntry
	for i := range n {
		f.plain = append(f.plain, 3, byte(' '+i>>12), byte(' '+i>>6&63), byte(' '+i&63))
	}
	for range n {
		f.plain = append(f.plain, 16)
	}
	for range n {
		f.plain = append(f.plain, 1, 0)
	}
	f.plain = append(f.plain, make([]byte, n)...)
	f.blobs = make([]byte, 2*n)
	for range n {
		f.tail = empty.append(f.tail)
	}
	file := f.file()
	var err error
	used := allocated(func() { _, err = ReadIndex(bytes.NewReader(file), int64(len(file))) })
	require.NoError(t, err)
	assert.Less(t, used, 100*uint64(len(file)))
}
