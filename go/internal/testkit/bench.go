package testkit

import (
	"sync"
	"testing"
	"time"
)

// Report adds to a benchmark whose iteration handles n lane values, or nbytes bytes of target: ns/value, GB/s, and the time as a multiple of what copying
// that many bytes takes (memcpy, the best of several runs on buffers of that size).
func Report(b *testing.B, n, nbytes int) {
	b.Helper()
	perOp := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(perOp/float64(n), "ns/value")
	b.ReportMetric(float64(nbytes)/perOp, "GB/s")
	b.ReportMetric(perOp/memcpyNanos(nbytes), "x-memcpy")
	b.ReportMetric(0, "ns/op") // not shown: the rest says more
}

var memcpyTimes sync.Map

func memcpyNanos(n int) float64 {
	if t, ok := memcpyTimes.Load(n); ok {
		return t.(float64)
	}
	src, dst := make([]byte, n), make([]byte, n)
	best := 1e18
	for range 20 {
		start := time.Now()
		for range 4 {
			copy(dst, src)
		}
		best = min(best, float64(time.Since(start).Nanoseconds())/4)
	}
	memcpyTimes.Store(n, best)
	return best
}
