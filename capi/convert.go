//go:build cgo

package main

/*
#include "ulpack.h"
*/
import "C"

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/ulpack/ulpack/go/ulpack"
)

// The records of ulpack.h.
type (
	cError   = C.ulp_error
	cBytes   = C.ulp_bytes
	cTensor  = C.ulp_tensor
	cOptions = C.ulp_options
	cStream  = C.ulp_stream
	cSaved   = C.ulp_saved
	cItem    = C.ulp_item
)

// maxRecords bounds the records of one call, so that a garbage count is an error and not a walk through memory.
const maxRecords = 1 << 24

// maxDims bounds the dimensions of one call: 64 for each tensor.
const maxDims = 64 * maxRecords

// pointer turns an address in the caller's memory into a pointer. The memory is not Go's, so the garbage collector
// neither moves nor frees it.
func pointer(addr C.uint64_t) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// block is the caller's memory [addr, addr+n). A null address with no bytes gives an empty, non-nil slice.
func block(what string, addr, n C.uint64_t) ([]byte, *ulpack.Error) {
	if n == 0 {
		return []byte{}, nil
	}
	if addr == 0 {
		return nil, badArgument("%s: null pointer for %d bytes", what, uint64(n))
	}
	if _, wraps := bits.Add64(uint64(addr), uint64(n-1), 0); wraps != 0 || n > math.MaxInt64 {
		return nil, badArgument("%s: %d bytes at %#x do not fit in memory", what, uint64(n), uint64(addr))
	}
	return unsafe.Slice((*byte)(pointer(addr)), int(n)), nil
}

// records is an array of n fixed-size records of the caller.
func records[T any](what string, first *T, n C.uint64_t, limit uint64) ([]T, *ulpack.Error) {
	if n == 0 {
		return nil, nil
	}
	if first == nil {
		return nil, badArgument("%s: null pointer for %d entries", what, uint64(n))
	}
	if uint64(n) > limit {
		return nil, fail(ulpack.KindLimit, "%s: %d entries, at most %d in one call", what, uint64(n), limit)
	}
	if uintptr(unsafe.Pointer(first))%8 != 0 {
		return nil, badArgument("%s: not aligned to 8 bytes", what)
	}
	return unsafe.Slice(first, int(n)), nil
}

// part is bytes [off, off+n) of the names block, as a string that shares its memory for the time of the call.
func part(what string, names []byte, off, n C.uint64_t) (string, *ulpack.Error) {
	if n == 0 {
		return "", nil
	}
	if uint64(off) > uint64(len(names)) || uint64(n) > uint64(len(names))-uint64(off) {
		return "", badArgument("%s: bytes %d+%d are outside the names block of %d bytes",
			what, uint64(off), uint64(n), len(names))
	}
	return unsafe.String(&names[off], int(n)), nil
}

// shapeBytes is the size of a tensor, and whether it fits in 63 bits.
func shapeBytes(shape []uint64, itemsize uint64) (uint64, bool) {
	for _, d := range shape {
		if d == 0 {
			return 0, true
		}
	}
	total := itemsize
	for _, d := range shape {
		over, low := bits.Mul64(total, d)
		if over != 0 || low > math.MaxInt64 {
			return 0, false
		}
		total = low
	}
	return total, true
}

// tensor converts and checks one record. The result shares the caller's memory.
func tensor(dst *ulpack.Tensor, t *cTensor, dims []uint64, names []byte) *ulpack.Error {
	if t.flags != 0 || t.reserved != 0 || t.ref2 != 0 {
		return badArgument("reserved fields of ulp_tensor must be 0")
	}
	if uint64(t.shape_off) > uint64(len(dims)) || uint64(t.ndim) > uint64(len(dims))-uint64(t.shape_off) {
		return badArgument("dimensions %d+%d are outside the dims array of %d",
			uint64(t.shape_off), uint64(t.ndim), len(dims))
	}
	end := t.shape_off + t.ndim
	shape := dims[t.shape_off:end:end]
	if t.itemsize == 0 || t.itemsize > math.MaxInt32 {
		return badArgument("itemsize %d", uint64(t.itemsize))
	}
	if t.dtype > math.MaxUint8 {
		return badArgument("dtype code %d does not exist", uint64(t.dtype))
	}
	nbytes, fits := shapeBytes(shape, uint64(t.itemsize))
	if !fits {
		return fail(ulpack.KindLimit, "shape %v of %d-byte elements", shape, uint64(t.itemsize))
	}
	if nbytes != uint64(t.nbytes) {
		return badArgument("%d bytes given, shape %v of %d-byte elements has %d",
			uint64(t.nbytes), shape, uint64(t.itemsize), nbytes)
	}
	var e *ulpack.Error
	if dst.Data, e = block("data", t.data, t.nbytes); e != nil {
		return e
	}
	if t.ref != 0 {
		if dst.Ref, e = block("reference", t.ref, t.nbytes); e != nil {
			return e
		}
	}
	if dst.Name, e = part("name", names, t.name_off, t.name_len); e != nil {
		return e
	}
	if dst.RefName, e = part("reference name", names, t.ref_name_off, t.ref_name_len); e != nil {
		return e
	}
	if dst.DTypeName, e = part("dtype name", names, t.dtype_off, t.dtype_len); e != nil {
		return e
	}
	dst.DType = ulpack.DType(t.dtype)
	dst.ItemSize = int(t.itemsize)
	dst.Shape = shape
	return nil
}

// batch is what ulp_save and ulp_save_bound are given.
type batch struct {
	tensors             []ulpack.Tensor
	structure, metadata []byte
}

func convertBatch(first *cTensor, n C.uint64_t, dims *C.uint64_t, ndims C.uint64_t,
	names, structure, metadata cBytes) (b batch, e *ulpack.Error) {
	list, e := records("tensors", first, n, maxRecords)
	if e != nil {
		return b, e
	}
	shapes, nameBlock, e := shapesAndNames(dims, ndims, names)
	if e != nil {
		return b, e
	}
	if b.structure, e = block("structure", structure.data, structure.nbytes); e != nil {
		return b, e
	}
	if b.metadata, e = block("metadata", metadata.data, metadata.nbytes); e != nil {
		return b, e
	}
	b.tensors = make([]ulpack.Tensor, len(list))
	for i := range list {
		if e := tensor(&b.tensors[i], &list[i], shapes, nameBlock); e != nil {
			return b, of(i, e)
		}
	}
	return b, nil
}

func shapesAndNames(dims *C.uint64_t, ndims C.uint64_t, names cBytes) ([]uint64, []byte, *ulpack.Error) {
	shapes, e := records("dims", (*uint64)(dims), ndims, maxDims)
	if e != nil {
		return nil, nil, e
	}
	nameBlock, e := block("names", names.data, names.nbytes)
	return shapes, nameBlock, e
}

// options converts and checks the options of a call that knows the given flags. Null means the defaults.
func options(o *cOptions, flags C.uint64_t) (opt ulpack.Options, e *ulpack.Error) {
	if o == nil {
		return opt, nil
	}
	if o.flags&^flags != 0 || o.reserved != [3]C.uint64_t{} {
		return opt, badArgument("options: unknown flags %#x or reserved fields that are not 0", uint64(o.flags&^flags))
	}
	if o.threads > math.MaxInt32 || o.effort > math.MaxInt32 {
		return opt, badArgument("options: threads %d, effort %d", uint64(o.threads), uint64(o.effort))
	}
	if o.cancel%4 != 0 || o.progress%8 != 0 {
		return opt, badArgument("options: cancel or progress is not aligned to its size")
	}
	opt = ulpack.Options{
		Threads:    int(o.threads),
		Cancel:     (*int32)(pointer(o.cancel)),
		Progress:   (*uint64)(pointer(o.progress)),
		Effort:     int(o.effort),
		Salvage:    o.flags&C.ULP_F_SALVAGE != 0,
		VerifyOnly: o.flags&C.ULP_F_VERIFY_ONLY != 0,
		Relate:     o.flags&C.ULP_F_RELATE != 0,
	}
	return opt, nil
}

// cancelled says whether the caller has asked the call to end.
func cancelled(opt *ulpack.Options) bool {
	return opt.Cancel != nil && atomic.LoadInt32(opt.Cancel) != 0
}

// convertItems checks the items of a load and resets what it reports in them.
func convertItems(list []cItem, verifyOnly bool) ([]ulpack.Item, *ulpack.Error) {
	items := make([]ulpack.Item, len(list))
	for i := range list {
		if e := convertItem(&items[i], &list[i], verifyOnly); e != nil {
			return nil, of(i, e)
		}
	}
	return items, nil
}

func convertItem(dst *ulpack.Item, c *cItem, verifyOnly bool) *ulpack.Error {
	c.status, c.offset, c.fingerprint = 0, -1, 0
	if c.reserved != [2]C.uint64_t{} {
		return badArgument("reserved fields of ulp_item must be 0")
	}
	if c.tensor > math.MaxInt {
		return badArgument("tensor %d", uint64(c.tensor))
	}
	var e *ulpack.Error
	if c.ref != 0 {
		if dst.Ref, e = block("reference", c.ref, c.ref_nbytes); e != nil {
			return e
		}
	}
	if c.out != 0 || !verifyOnly {
		if dst.Out, e = block("out", c.out, c.out_nbytes); e != nil {
			return e
		}
	}
	if overlap(c) && (c.ref != c.out || c.first != 0) {
		return badArgument("out overlaps the reference without being the same place")
	}
	dst.Tensor = int(c.tensor)
	dst.First, dst.Count = uint64(c.first), uint64(c.count)
	return nil
}

// overlap says whether the output shares memory with the reference; both have passed block.
func overlap(c *cItem) bool {
	return c.ref != 0 && c.out != 0 && c.ref < c.out+c.out_nbytes && c.out < c.ref+c.ref_nbytes
}

// reportItems writes each item's verdict to the caller's records.
func reportItems(list []cItem, items []ulpack.Item) {
	for i := range items {
		list[i].fingerprint = C.uint64_t(items[i].Fingerprint)
		if items[i].Err != nil {
			e := classify(items[i].Err)
			list[i].status = C.int64_t(report(nil, e))
			list[i].offset = C.int64_t(e.Offset)
		}
	}
}
