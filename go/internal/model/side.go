package model

import (
	"errors"

	"github.com/ulpack/ulpack/go/internal/sidecoder"
)

// MaxClasses is the largest number of classes of rows or columns (FORMAT.md section 7).
const MaxClasses = 8

// MaxClusters is the largest number of clusters of own tables (FORMAT.md sections 10 and 14).
const MaxClusters = 64

const (
	mantissaBits = 2 // p is 1 + raw(2)
	classBits    = 3 // classes are tree(3)
	clusterBits  = 6 // explicit cluster numbers are tree(6)
	codeBits     = 8 // the first code of a cluster is 1 + raw(8)
)

var (
	errClusterAbove = errors.New("context map names a cluster above the largest so far")
	errClusters     = errors.New("more than 64 clusters")
	errCode         = errors.New("weight code out of range")
	errEmptyTable   = errors.New("frequency table without a token")
	errClass        = errors.New("row or column class out of range")
)

// sideContexts are the adaptive contexts of one side string (section 10); the zero value is new.
type sideContexts struct {
	class       [1 + MaxClasses][1 << classBits]sidecoder.Context // X
	same, fresh sidecoder.Context                                 // C0, C1
	cluster     [1 << clusterBits]sidecoder.Context               // C2
	zero        [8]sidecoder.Context                              // Z
	repeat      [3]sidecoder.Context                              // D
	sign        [3]sidecoder.Context                              // S
	step        [3]sidecoder.Gamma                                // G
}

// zeroContext returns the index into Z for token s of a cluster with the codes q so far, prev being the cluster before.
// Codes that do not exist count as 0.
func zeroContext(q, prev []uint8, s int) (z int) {
	if s < 1 || q[s-1] == 0 {
		z |= 1
	}
	if s < 2 || q[s-2] == 0 {
		z |= 2
	}
	if prev == nil || prev[s] == 0 {
		z |= 4
	}
	return z
}

// stepContext returns the index into D and G after the difference pd.
func stepContext(pd, p int) int {
	switch {
	case pd == 0:
		return 0
	case -1<<(p-1) <= pd && pd <= 1<<(p-1):
		return 1
	default:
		return 2
	}
}

// signContext returns the index into S after the difference pd.
func signContext(pd int) int {
	switch {
	case pd == 0:
		return 0
	case pd > 0:
		return 1
	default:
		return 2
	}
}

// WriteSide returns the side string of own tables (FORMAT.md section 10). Parametric tables have none.
func (t *Tables) WriteSide() []byte {
	var e sidecoder.Encoder
	e.Reset(make([]byte, 0, 64))
	var cx sideContexts
	e.Raw(mantissaBits, uint32(t.P-1))
	before := 0 // no class yet
	for _, class := range t.ClassList {
		e.Tree(cx.class[before][:], classBits, uint32(class))
		before = 1 + int(class)
	}
	largest := uint8(0)
	for c := 1; c < len(t.ContextMap); c++ {
		k := t.ContextMap[c]
		if k == t.ContextMap[c-1] {
			e.Bit(&cx.same, 1)
			continue
		}
		e.Bit(&cx.same, 0)
		if k == largest+1 {
			e.Bit(&cx.fresh, 1)
			largest = k
		} else {
			e.Bit(&cx.fresh, 0)
			e.Tree(cx.cluster[:], clusterBits, uint32(k))
		}
	}
	var prev []uint8
	for _, q := range t.Codes {
		writeCodes(&e, &cx, q, prev, t.P)
		prev = q
	}
	return e.Finish()
}

func writeCodes(e *sidecoder.Encoder, cx *sideContexts, q, prev []uint8, p int) {
	last, pd := 0, 0
	for s := range q {
		zero := &cx.zero[zeroContext(q, prev, s)]
		if q[s] == 0 {
			e.Bit(zero, 0)
			continue
		}
		e.Bit(zero, 1)
		code := int(q[s])
		if last == 0 {
			e.Raw(codeBits, uint32(code-1))
			last = code
			continue
		}
		d := code - last
		b := stepContext(pd, p)
		if d == 0 {
			e.Bit(&cx.repeat[b], 0)
		} else {
			e.Bit(&cx.repeat[b], 1)
			sign := &cx.sign[signContext(pd)]
			if d < 0 {
				e.Bit(sign, 1)
				e.Gamma(&cx.step[b], uint32(-d-1))
			} else {
				e.Bit(sign, 0)
				e.Gamma(&cx.step[b], uint32(d-1))
			}
		}
		last, pd = code, d
	}
}

// ReadSide decodes the side string of own tables for a number of contexts (1 .. 256), an alphabet of tokens (2 .. 256) and a
// tableLog of 8 .. 12 (FORMAT.md section 10). It returns an error for every string that section 10 or 4 forbids; its work
// and memory are bounded by 64 clusters, whatever the string says.
func ReadSide(side []byte, contexts, tokens, tableLog int) (*Tables, error) {
	return readSide(side, contexts, tokens, tableLog, 0, 0)
}

// ReadClassedSide is ReadSide for context part 3, with a number of classes (2 .. 8) of a number of rows or columns.
func ReadClassedSide(side []byte, tokens, tableLog, classes, entries int) (*Tables, error) {
	return readSide(side, classes*exponentContexts, tokens, tableLog, classes, entries)
}

func readSide(side []byte, contexts, tokens, tableLog, classes, entries int) (*Tables, error) {
	var d sidecoder.Decoder
	d.Reset(side)
	var cx sideContexts
	p := 1 + int(d.Raw(mantissaBits))
	var list []uint8
	if classes > 0 {
		var err error
		if list, err = readClasses(&d, &cx, classes, entries); err != nil {
			return nil, err
		}
	}
	contextMap := make([]uint8, contexts)
	clusters := 1
	for c := 1; c < contexts; c++ {
		switch {
		case d.Bit(&cx.same) != 0:
			contextMap[c] = contextMap[c-1]
		case d.Bit(&cx.fresh) != 0:
			if clusters == MaxClusters {
				return nil, errClusters
			}
			contextMap[c] = uint8(clusters)
			clusters++
		default:
			k := d.Tree(cx.cluster[:], clusterBits)
			if k >= uint32(clusters) {
				return nil, errClusterAbove
			}
			contextMap[c] = uint8(k)
		}
	}
	t := newTables(contextMap, clusters, tokens, p, tableLog)
	t.Classes, t.ClassList = classes, list
	var prev []uint8
	for k, q := range t.Codes {
		if err := readCodes(&d, &cx, q, prev, p); err != nil {
			return nil, err
		}
		normalize(t.Freq[k], q, p, tableLog)
		prev = q
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return t, nil
}

// readClasses reads the class of each row or column.
func readClasses(d *sidecoder.Decoder, cx *sideContexts, classes, entries int) ([]uint8, error) {
	list := make([]uint8, entries)
	before := 0
	for i := range list {
		class := int(d.Tree(cx.class[before][:], classBits))
		if class >= classes {
			return nil, errClass
		}
		list[i] = uint8(class)
		before = 1 + class
	}
	return list, nil
}

func readCodes(d *sidecoder.Decoder, cx *sideContexts, q, prev []uint8, p int) error {
	last, pd := 0, 0
	for s := range q {
		if d.Bit(&cx.zero[zeroContext(q, prev, s)]) == 0 {
			continue
		}
		if last == 0 {
			last = 1 + int(d.Raw(codeBits))
		} else {
			b, sign := stepContext(pd, p), &cx.sign[signContext(pd)]
			pd = 0
			if d.Bit(&cx.repeat[b]) != 0 {
				negative := d.Bit(sign) != 0
				m := d.Gamma(&cx.step[b])
				if m >= 1<<codeBits { // no two codes are that far apart
					return errCode
				}
				pd = 1 + int(m)
				if negative {
					pd = -pd
				}
			}
			last += pd
		}
		if last < 1 || last > maxCode(p) {
			return errCode
		}
		q[s] = uint8(last)
	}
	if last == 0 {
		return errEmptyTable
	}
	return nil
}
