package blob

import (
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/model"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// classes are the classes of context part 3 (FORMAT.md sections 7 and 9): the context of a lane value is that of its
// reference's exponent in the class of its row or column.
type classes struct {
	n       int
	columns bool   // classes of columns, else of rows
	rho     uint64 // length of a row
	entries uint64 // rows or columns
	list    []uint8
}

func (c *classes) append(b []byte) []byte {
	axis := uint8(0)
	if c.columns {
		axis = 1
	}
	return wire.AppendVarint(append(b, uint8(c.n-1)|axis<<axisShift), c.rho)
}

// readClasses reads the fields of context part 3 that follow the exponent base; the list comes with the tables.
func (r *headerReader) readClasses(h *header) error {
	first := r.U8()
	c := &classes{n: 1 + int(first&(1<<axisShift-1)), columns: first>>axisShift != 0, rho: r.Varint()}
	if r.Err() != nil {
		return r.Err()
	}
	if c.n < 2 || c.n > model.MaxClasses {
		return fault.Corrupt("%d classes", c.n)
	}
	rows, err := rowLength(c.rho, h.codedLanes(r.g))
	if err != nil {
		return err
	}
	c.entries = rows
	if c.columns {
		c.entries = c.rho
	}
	h.classes = c
	return nil
}

// codedLanes is the number of lane values of the value that are coded.
func (h *header) codedLanes(g *Geometry) uint64 {
	if h.rows != nil {
		return h.rows.rest * h.rows.rho
	}
	return g.Elements * uint64(g.DType.Components)
}

// each calls f for consecutive parts of n lane values from first on that have one class.
func (c *classes) each(first uint64, n int, f func(from, to int, class uint8)) {
	column := first % c.rho
	row := first / c.rho
	for at := 0; at < n; {
		if c.columns {
			f(at, at+1, c.list[column])
			at++
			if column++; column == c.rho {
				column = 0
			}
			continue
		}
		end := min(at+int(c.rho-column), n)
		f(at, end, c.list[row])
		at, column = end, 0
		row++
	}
}

// add adds the class to contexts of the exponent; ix holds context<<8 | token of the lane values from first on.
func (c *classes) add(ix []uint16, first uint64) {
	c.each(first, len(ix), func(from, to int, class uint8) {
		add := uint16(class) * exponentContexts << 8
		part := ix[from:to]
		for i := range part {
			part[i] += add
		}
	})
}

// clusters sets dst to the clusters of lane values from first on, whose references are in ref.
func (c *classes) clusters(h *header, dst []uint8, first uint64, ref, contextMap []uint8) {
	size := h.spec.Width / 8
	if !c.columns {
		c.each(first, len(dst), func(from, to int, class uint8) {
			h.spec.Clusters(dst[from:to], ref[from*size:to*size], contextMap[int(class)*exponentContexts:][:exponentContexts])
		})
		return
	}
	h.spec.Clusters(dst, ref, everyContext[:exponentContexts])
	column := first % c.rho
	for i, context := range dst {
		dst[i] = contextMap[int(c.list[column])*exponentContexts+int(context)]
		if column++; column == c.rho {
			column = 0
		}
	}
}

// everyContext is the context map that keeps contexts apart.
var everyContext = func() (m [256]uint8) {
	for i := range m {
		m[i] = uint8(i)
	}
	return m
}()
