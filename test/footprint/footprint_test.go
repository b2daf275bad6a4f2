package footprint

import (
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
)

// profileVariable names the file that BenchmarkLiveHeap writes a heap profile to, if it is set.
const profileVariable = "FOOTPRINT_PROFILE"

// live returns how many bytes of the heap an interceptor of a size keeps.
func live(tb testing.TB, size size) int64 {
	tb.Helper()
	before := heap()
	s := set(tb, size)
	bytes := heap() - before
	if file := os.Getenv(profileVariable); file != "" {
		out, err := os.Create(file)
		if err == nil {
			err = pprof.Lookup("heap").WriteTo(out, 0)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	runtime.KeepAlive(s)
	return bytes
}

// BenchmarkLiveHeap is what the interceptor keeps, objects and their share of a proxy included.
func BenchmarkLiveHeap(b *testing.B) {
	for _, size := range []size{{1, 1000, 1}, {1, 1000, 10}, {1, 10_000, 1}, {100, 10_000, 1}} {
		b.Run(size.String(), func(b *testing.B) {
			for b.Loop() {
				bytes := live(b, size)
				b.ReportMetric(float64(bytes)/1e6, "MB")
				b.ReportMetric(float64(bytes)/float64(size.objects), "B/object")
			}
		})
	}
}
