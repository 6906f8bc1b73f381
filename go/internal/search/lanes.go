package search

import "slices"

// The sample of the searches (FORMAT.md section 30): of the 64 runs of section 21 the first 16 lane values each, or all
// lane values of a tensor of at most 1024.
const (
	sampleLanes = 1024
	sampleRuns  = 64
	sampleRun   = 128
	runLanes    = sampleLanes / sampleRuns
	gateLanes   = 16 // that are tried first
)

// eachPlace yields the places of the sample of n lane values.
func eachPlace(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if n <= sampleLanes {
			for i := range n {
				if !yield(i) {
					return
				}
			}
			return
		}
		for b := range sampleRuns {
			start := b * (n - sampleRun) / (sampleRuns - 1)
			for i := range runLanes {
				if !yield(start + i) {
					return
				}
			}
		}
	}
}

// samplePlaces lists the places of the sample of n lane values.
func samplePlaces(n int) []int { return slices.Collect(eachPlace(n)) }

// pick returns the lane values of size bytes at places.
func pick(b []byte, places []int, size int) []byte {
	out := make([]byte, 0, len(places)*size)
	for _, p := range places {
		out = append(out, b[p*size:(p+1)*size]...)
	}
	return out
}
