package container

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/ulpack/ulpack/go/internal/fault"
)

// region is a range of addresses.
type region struct{ from, to uintptr }

func regionOf(b []byte) region {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return region{from, from + uintptr(len(b))}
}

// writer is an output with the tensor that is written to it.
type writer struct {
	r *request
	m *member
	f *family
}

// checkOverlaps checks that no output overlaps another output or a reference in use, except an item's own reference at the
// place of the range: then the item is decoded in place, which the result and the family tell.
func (l *loader) checkOverlaps() (inPlace bool, err error) {
	var starts, ends []uintptr // of the references
	var writers []writer
	for _, f := range l.families {
		for _, m := range f.members {
			for _, r := range m.requests {
				if len(r.out) > 0 {
					writers = append(writers, writer{r, m, f})
				}
			}
			if m.lends {
				r := regionOf(m.ref)
				starts, ends = append(starts, r.from), append(ends, r.to)
			}
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	slices.SortFunc(writers, func(a, b writer) int { return cmp.Compare(regionOf(a.r.out).from, regionOf(b.r.out).from) })

	top := uintptr(0)
	for _, w := range writers {
		out := regionOf(w.r.out)
		if out.from < top {
			return false, overlapError(w.m, "another output")
		}
		top = out.to
		// References that overlap: those that begin before the end, without those that end before the start.
		before, _ := slices.BinarySearch(starts, out.to)
		over, _ := slices.BinarySearch(ends, out.from+1)
		overlapping := before - over
		if w.m.lends {
			if own := regionOf(w.m.ref); own.from < out.to && out.from < own.to {
				if out.from != own.from+uintptr(w.r.from) {
					return false, overlapError(w.m, "its reference at another place")
				}
				inPlace, w.f.inPlace = true, true
				overlapping--
			}
		}
		if overlapping > 0 {
			return false, overlapError(w.m, "another reference")
		}
	}
	return inPlace, nil
}

func overlapError(m *member, what string) error {
	return fault.Argument("the output overlaps %s", what).At(m.tensor, -1)
}
