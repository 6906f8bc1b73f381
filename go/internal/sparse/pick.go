package sparse

import "github.com/ulpack/ulpack/go/internal/le"

// pick returns the lane values of src at places, in the memory of dst if that is large enough.
func pick(dst, src []byte, places []uint32, width int) []byte {
	dst = sized(dst, len(places)*width/8)
	if width == 16 {
		for i, p := range places {
			le.Store(dst, i, le.Load[uint16](src, int(p)))
		}
		return dst
	}
	for i, p := range places {
		le.Store(dst, i, le.Load[uint32](src, int(p)))
	}
	return dst
}

// place is the inverse of pick: it puts the lane values of src to their places in dst.
func place(dst, src []byte, places []uint32, width int) {
	if width == 16 {
		for i, p := range places {
			le.Store(dst, int(p), le.Load[uint16](src, i))
		}
		return
	}
	for i, p := range places {
		le.Store(dst, int(p), le.Load[uint32](src, i))
	}
}
