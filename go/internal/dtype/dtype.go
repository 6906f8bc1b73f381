// Package dtype is the table of element types (FORMAT.md section 2) and the chunk borders that follow from it (section 3).
package dtype

// ChunkElements is the number of elements in a full chunk (section 3).
const ChunkElements = 1 << 18

// CodeNamed is the code of dtypes that only their caller interprets: an array of bytes with a name.
const CodeNamed = 0

// Info describes one dtype. An element is Components lane values of Width bits.
type Info struct {
	Code       uint8
	Name       string
	ItemSize   int // bytes of an element
	Components int // lane values of an element
	Width      int // bits of a lane value: 8, 16, 32 or 64
	Float      bool
	ExpBits    int // floats only
	MantBits   int // floats only
}

var table = [...]Info{
	{1, "bfloat16", 2, 1, 16, true, 8, 7},
	{2, "float16", 2, 1, 16, true, 5, 10},
	{3, "float32", 4, 1, 32, true, 8, 23},
	{4, "float64", 8, 1, 64, true, 11, 52},
	{5, "float8_e4m3fn", 1, 1, 8, true, 4, 3},
	{6, "float8_e5m2", 1, 1, 8, true, 5, 2},
	{7, "float8_e4m3fnuz", 1, 1, 8, true, 4, 3},
	{8, "float8_e5m2fnuz", 1, 1, 8, true, 5, 2},
	{16, "uint8", 1, 1, 8, false, 0, 0},
	{17, "int8", 1, 1, 8, false, 0, 0},
	{18, "uint16", 2, 1, 16, false, 0, 0},
	{19, "int16", 2, 1, 16, false, 0, 0},
	{20, "uint32", 4, 1, 32, false, 0, 0},
	{21, "int32", 4, 1, 32, false, 0, 0},
	{22, "uint64", 8, 1, 64, false, 0, 0},
	{23, "int64", 8, 1, 64, false, 0, 0},
	{24, "bool", 1, 1, 8, false, 0, 0},
	{25, "complex32", 4, 2, 16, true, 5, 10},
	{26, "complex64", 8, 2, 32, true, 8, 23},
	{27, "complex128", 16, 2, 64, true, 11, 52},
	{28, "float8_e8m0fnu", 1, 1, 8, false, 0, 0},
	{29, "float4_e2m1fn_x2", 1, 1, 8, false, 0, 0},
}

var byCode = func() (t [256]Info) {
	for _, d := range table {
		t[d.Code] = d
	}
	return t
}()

// Lookup returns the dtype with this code; false for reserved codes and for CodeNamed, which needs a name and a size (see Named).
func Lookup(code uint8) (Info, bool) {
	d := byCode[code]
	return d, d.ItemSize != 0
}

// All returns the dtypes that have a code, in the order of their codes. The caller may change the slice.
func All() []Info { return append([]Info(nil), table[:]...) }

// Named describes a dtype without a code: itemSize bytes, 8-bit integer lanes.
func Named(name string, itemSize int) Info {
	return Info{Code: CodeNamed, Name: name, ItemSize: itemSize, Components: itemSize, Width: 8}
}

// ChunkElems is the number of elements in a full chunk of this dtype (section 3).
func (d Info) ChunkElems() int {
	if d.Code != CodeNamed {
		return ChunkElements
	}
	return max(1, ChunkElements/max(1, d.ItemSize))
}
