package search

import (
	"encoding/binary"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/predict"
)

// Tensor is a tensor of a file, as it is to be saved. Memory is only read.
type Tensor struct {
	Name        string
	DType       dtype.Info
	Shape       []uint64
	Target, Ref []byte // Ref nil: no reference
}

// None stands for no tensor.
const None = -1

// Relation is what other tensors of the file are to one (FORMAT.md section 31). Tensors are named by their places in the list.
type Relation struct {
	Equal  int // has the same value and comes before it
	Source int // is nearly everywhere what it is rounded from
	First  int // of a second moment: its first moment
	Second int // of a first moment: its second moment
	Buffer int // of a weight: its momentum

	Replayed bool            // of a second moment: Program gives it from the first moment
	Program  predict.Program // Replayed, or of a weight with First and Second, or with Buffer: how the step gave it
	Weight   bool            // First and Second are the moments of this weight
}

func unrelated() Relation {
	return Relation{Equal: None, Source: None, First: None, Second: None, Buffer: None}
}

// Bounds of section 31: smaller tensors gain nothing.
const (
	minElements   = 64
	minEqualBytes = 64
)

// elements is the number of elements.
func (t *Tensor) elements() int { return len(t.Target) / t.DType.ItemSize }

// isFloat reports whether the tensor is of floats of at least 16 bits and large enough to be related to others.
func (t *Tensor) isFloat() bool {
	return t.DType.Float && t.DType.Width >= 16 && t.DType.Components == 1 && t.elements() >= minElements
}

const float32Code = 3

// isFloat32 reports whether a step can be replayed with the tensor.
func (t *Tensor) isFloat32() bool { return t.DType.Code == float32Code && t.isFloat() && t.Ref != nil }

// shapeKey is the same for tensors of the same shape.
func (t *Tensor) shapeKey() string {
	b := make([]byte, 0, 32)
	for _, n := range t.Shape {
		b = binary.AppendUvarint(b, n)
	}
	return string(b)
}

// Finder looks for relations between tensors. The methods are steps, in this order; those that take the number of a pair or
// weight may run at the same time for different ones.
type Finder struct {
	tensors   []Tensor
	relations []Relation

	pairs   []pair
	weights weights
	steps   []uint64 // numbers of steps that the file may tell
}

// pair is a first and a second moment.
type pair struct{ first, second int }

// NewFinder starts with the relations that names and single values tell: equal tensors, roundings, pairs of moments.
func NewFinder(tensors []Tensor) *Finder {
	f := &Finder{tensors: tensors, relations: make([]Relation, len(tensors))}
	for i := range f.relations {
		f.relations[i] = unrelated()
	}
	f.findEqual()
	f.findSources()
	f.findPairs()
	f.findSteps()
	return f
}

// Relations returns what was found.
func (f *Finder) Relations() []Relation { return f.relations }

// findEqual finds tensors with the value of an earlier one: candidates by a digest of a few bytes.
func (f *Finder) findEqual() {
	first := make(map[string]int)
	for i := range f.tensors {
		t := &f.tensors[i]
		if len(t.Target) < minEqualBytes {
			continue
		}
		key := t.digest()
		other, seen := first[key]
		if !seen {
			first[key] = i
			continue
		}
		if string(t.Target) == string(f.tensors[other].Target) && !t.needsNothing() {
			f.relations[i].Equal = other
		}
	}
}

// digest tells tensors of another dtype, shape or (most of them) value apart.
func (t *Tensor) digest() string {
	const looks = 16
	b := make([]byte, 0, 256)
	b = append(b, t.DType.Code)
	b = append(b, t.DType.Name...)
	b = binary.AppendUvarint(b, uint64(t.DType.ItemSize))
	for _, n := range t.Shape {
		b = binary.AppendUvarint(b, n)
	}
	b = append(b, 0)
	for k := range looks {
		at := k * (len(t.Target) - 8) / (looks - 1)
		b = append(b, t.Target[at:at+8]...)
	}
	return string(b)
}

// needsNothing reports whether the tensor is constant or equal to its reference.
func (t *Tensor) needsNothing() bool {
	item := t.DType.ItemSize
	return string(t.Target[item:]) == string(t.Target[:len(t.Target)-item]) || t.Ref != nil && string(t.Target) == string(t.Ref)
}
