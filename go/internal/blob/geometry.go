package blob

import (
	"math/bits"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// Limits of FORMAT.md section 14.
const (
	MaxDims  = 64
	maxBytes = 1 << 60 // a tensor has fewer
)

// Geometry is what the dtype and the shape say about the memory of a value (FORMAT.md section 3).
type Geometry struct {
	DType    dtype.Info
	Shape    []uint64
	Elements uint64
}

// NewGeometry checks the limits of section 14.
func NewGeometry(d dtype.Info, shape []uint64) (Geometry, error) {
	g := Geometry{DType: d, Shape: shape, Elements: 1}
	if len(shape) > MaxDims {
		return g, fault.Limit("%d dimensions, at most %d are allowed", len(shape), MaxDims)
	}
	for _, n := range shape {
		if n == 0 {
			g.Elements = 0
			return g, nil
		}
	}
	for _, n := range shape {
		hi, lo := bits.Mul64(g.Elements, n)
		if hi != 0 || lo >= maxBytes {
			return g, fault.Limit("the shape has 2^60 elements or more")
		}
		g.Elements = lo
	}
	if hi, lo := bits.Mul64(g.Elements, uint64(d.ItemSize)); hi != 0 || lo >= maxBytes {
		return g, fault.Limit("the tensor has 2^60 bytes or more")
	}
	return g, nil
}

// NBytes is the size of the value.
func (g *Geometry) NBytes() uint64 { return g.Elements * uint64(g.DType.ItemSize) }

// ChunkBytes is the size of a full chunk.
func (g *Geometry) ChunkBytes() uint64 {
	return uint64(g.DType.ChunkElems()) * uint64(g.DType.ItemSize)
}

// Chunks is the number of chunks.
func (g *Geometry) Chunks() uint64 {
	size := uint64(g.DType.ChunkElems())
	return g.Elements/size + (g.Elements%size+size-1)/size
}

// Chunk returns the byte range of chunk j.
func (g *Geometry) Chunk(j uint64) (from, to uint64) {
	from = j * g.ChunkBytes()
	return from, min(from+g.ChunkBytes(), g.NBytes())
}

// laneBytes is the size of a lane value.
func (g *Geometry) laneBytes() int { return g.DType.Width / 8 }

// lanes is the number of lane values in n bytes.
func (g *Geometry) lanes(n uint64) int { return int(n) / g.laneBytes() }

// with is the geometry of a tensor of the same shape and another dtype.
func (g *Geometry) with(d *dtype.Info) *Geometry {
	other := *g
	other.DType = *d
	return &other
}
