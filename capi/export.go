//go:build cgo

// Command capi is the C library libulpack: the functions of ulpack.h on top of the Go package ulpack.
//
// It holds no algorithm. shim.c comes before every function here (fork, floating-point state); here pointers and
// lengths are checked, records converted, and panics and errors turned into codes.
package main

/*
#include "ulpack.h"
*/
import "C"

import (
	"runtime/debug"
	"unsafe"

	"github.com/ulpack/ulpack/go/ulpack"
)

func main() {} // never runs: the package is built with -buildmode=c-shared

// call runs the body of an export: it resets err, and turns a panic or the body's error into a code.
func call(err *C.ulp_error, body func() error) (result C.int32_t) {
	defer guard(&result, err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	reset(err)
	return report(err, body())
}

// giveJSON copies text to the caller's buffer, or says how much room it takes.
func giveJSON(text []byte, json *C.char, capacity C.uint64_t, needed *C.uint64_t) error {
	if needed == nil {
		return badArgument("needed: null pointer")
	}
	*needed = C.uint64_t(len(text))
	if uint64(capacity) < uint64(len(text)) {
		return fail(ulpack.KindSpace, "%d bytes needed, %d given", len(text), uint64(capacity))
	}
	if json == nil {
		return badArgument("json: null pointer for %d bytes", uint64(capacity))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(json)), len(text)), text)
	return nil
}

//export ulpGoInfo
func ulpGoInfo(json *C.char, capacity C.uint64_t, needed *C.uint64_t, err *C.ulp_error) C.int32_t {
	return call(err, func() error {
		return giveJSON(ulpack.InfoJSON(), json, capacity, needed)
	})
}

//export ulpGoSaveBound
func ulpGoSaveBound(tensors *C.ulp_tensor, n C.uint64_t, dims *C.uint64_t, ndims C.uint64_t,
	names, structure, metadata C.ulp_bytes, bound *C.uint64_t, err *C.ulp_error) C.int32_t {
	return call(err, func() error {
		if bound == nil {
			return badArgument("bound: null pointer")
		}
		*bound = 0
		b, e := convertBatch(tensors, n, dims, ndims, names, structure, metadata)
		if e != nil {
			return e
		}
		size, fault := ulpack.SaveBound(b.tensors, b.structure, b.metadata)
		if fault == nil {
			*bound = C.uint64_t(size)
		}
		return fault
	})
}

//export ulpGoSave
func ulpGoSave(out *C.ulp_stream, tensors *C.ulp_tensor, n C.uint64_t, dims *C.uint64_t, ndims C.uint64_t,
	names, structure, metadata C.ulp_bytes, opt *C.ulp_options, saved *C.ulp_saved, written *C.uint64_t,
	err *C.ulp_error) C.int32_t {
	return call(err, func() error {
		if written == nil {
			return badArgument("written: null pointer")
		}
		*written = 0
		settings, e := options(opt, C.ULP_F_RELATE)
		if e != nil {
			return e
		}
		b, e := convertBatch(tensors, n, dims, ndims, names, structure, metadata)
		if e != nil {
			return e
		}
		results, e := records("saved", saved, n, maxRecords)
		if saved != nil && e != nil {
			return e
		}
		dst, e := openWriter(out, &settings)
		if e != nil {
			return e
		}
		done, total, fault := ulpack.Save(dst, b.tensors, b.structure, b.metadata, settings)
		if fault != nil {
			return fault
		}
		*written = C.uint64_t(total)
		if m := dst.memory; m != nil && m.total > uint64(len(m.dst)) {
			return fail(ulpack.KindSpace, "%d bytes needed, %d given", m.total, len(m.dst))
		}
		if saved != nil {
			giveSaved(results, done)
		}
		return nil
	})
}

func giveSaved(dst []cSaved, done []ulpack.Saved) {
	for i, s := range done {
		dst[i] = cSaved{
			plan:        C.uint64_t(s.Plan),
			nbytes:      C.uint64_t(s.NBytes),
			fingerprint: C.uint64_t(s.Fingerprint),
			detail:      C.uint64_t(s.Detail),
		}
	}
}

//export ulpGoIndex
func ulpGoIndex(in *C.ulp_stream, json *C.char, capacity C.uint64_t, needed *C.uint64_t, err *C.ulp_error) C.int32_t {
	return call(err, func() error {
		src, size, e := openReader(in)
		if e != nil {
			return e
		}
		text, fault := ulpack.IndexJSON(src, size)
		if fault != nil {
			return fault
		}
		return giveJSON(text, json, capacity, needed)
	})
}

//export ulpGoLoad
func ulpGoLoad(in *C.ulp_stream, items *C.ulp_item, n C.uint64_t, opt *C.ulp_options, err *C.ulp_error) C.int32_t {
	return call(err, func() error {
		settings, e := options(opt, C.ULP_F_SALVAGE|C.ULP_F_VERIFY_ONLY)
		if e != nil {
			return e
		}
		list, e := records("items", items, n, maxRecords)
		if e != nil {
			return e
		}
		work, e := convertItems(list, settings.VerifyOnly)
		if e != nil {
			return e
		}
		src, size, e := openReader(in)
		if e != nil {
			return e
		}
		fault := ulpack.Load(src, size, work, settings)
		reportItems(list, work)
		return fault
	})
}

//export ulpGoFingerprint
func ulpGoFingerprint(t *C.ulp_tensor, dims *C.uint64_t, ndims C.uint64_t, names C.ulp_bytes, fingerprint *C.uint64_t,
	err *C.ulp_error) C.int32_t {
	return call(err, func() error {
		if fingerprint == nil {
			return badArgument("fingerprint: null pointer")
		}
		*fingerprint = 0
		b, e := convertBatch(t, 1, dims, ndims, names, cBytes{}, cBytes{})
		if e != nil {
			return e
		}
		value, fault := ulpack.Fingerprint(&b.tensors[0])
		if fault == nil {
			*fingerprint = C.uint64_t(value)
		}
		return fault
	})
}

//export ulpGoFreeMemory
func ulpGoFreeMemory() C.int32_t {
	return call(nil, func() error {
		ulpack.FreeMemory()
		return nil
	})
}
