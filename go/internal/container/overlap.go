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

// checkOverlaps checks that no output overlaps another output or a reference in use, except an item's own reference at the
// place of the range: then the item is decoded in place, which the result tells.
func checkOverlaps(jobs []*job) (inPlace bool, err error) {
	var starts, ends []uintptr // of the references
	writers := make([]*job, 0, len(jobs))
	for _, j := range jobs {
		if len(j.out) > 0 {
			writers = append(writers, j)
		}
		if len(j.ref) > 0 {
			r := regionOf(j.ref)
			starts, ends = append(starts, r.from), append(ends, r.to)
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	slices.SortFunc(writers, func(a, b *job) int { return cmp.Compare(regionOf(a.out).from, regionOf(b.out).from) })

	top := uintptr(0)
	for _, j := range writers {
		out := regionOf(j.out)
		if out.from < top {
			return false, overlapError(j, "another output")
		}
		top = out.to
		// References that overlap: those that begin before the end, without those that end before the start.
		before, _ := slices.BinarySearch(starts, out.to)
		over, _ := slices.BinarySearch(ends, out.from+1)
		overlapping := before - over
		if len(j.ref) > 0 {
			if own := regionOf(j.ref); own.from < out.to && out.from < own.to {
				if out.from != own.from+uintptr(j.from) {
					return false, overlapError(j, "its reference at another place")
				}
				inPlace = true
				overlapping--
			}
		}
		if overlapping > 0 {
			return false, overlapError(j, "another reference")
		}
	}
	return inPlace, nil
}

func overlapError(j *job, what string) error {
	return fault.Argument("the output overlaps %s", what).At(j.item.Tensor, -1)
}
