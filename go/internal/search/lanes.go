package search

// The sample of the searches (FORMAT.md section 30): of the 64 runs of section 21 the first 16 lane values each, or all
// lane values of a tensor of at most 1024.
const (
	sampleLanes = 1024
	sampleRuns  = 64
	sampleRun   = 128
	runLanes    = sampleLanes / sampleRuns
	gateLanes   = 16 // that are tried first
)

// samplePlaces lists the places of the sample of n lane values.
func samplePlaces(n int) []int {
	if n <= sampleLanes {
		places := make([]int, n)
		for i := range places {
			places[i] = i
		}
		return places
	}
	places := make([]int, 0, sampleLanes)
	for b := range sampleRuns {
		start := b * max(n-sampleRun, 0) / (sampleRuns - 1)
		for i := range runLanes {
			places = append(places, start+i)
		}
	}
	return places
}

// pick returns the lane values of size bytes at places.
func pick(b []byte, places []int, size int) []byte {
	out := make([]byte, 0, len(places)*size)
	for _, p := range places {
		out = append(out, b[p*size:(p+1)*size]...)
	}
	return out
}
