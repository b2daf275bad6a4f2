package footprint

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// profileVariable is the environment variable with the file to which BenchmarkLiveHeap writes a heap profile.
const profileVariable = "FOOTPRINT_PROFILE"

// liveHeap returns the live heap of an interceptor in bytes, as soon as isExpected is true for it. What is in flight
// counts at first, so it waits.
func liveHeap(tb testing.TB, size size, isExpected func(bytes int64) bool) int64 {
	tb.Helper()
	before := heapInUse()
	s := startInterceptor(tb, size)
	var bytes int64
	await.Described(tb, "the live heap", func() bool {
		bytes = heapInUse() - before
		return isExpected(bytes)
	}, func() string { return fmt.Sprintf("%d bytes for %s", bytes, size) })
	defer s.stop()
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

// anySize is true for every size.
func anySize(int64) bool { return true }

// TestLiveHeap enforces limits on the memory of one more HTTPScaledObject, in a canary, with its Services, their
// endpoints, its status and the state of one proxy, and on the memory of one more proxy for each object. Results differ
// a little from run to run, because maps grow in steps.
func TestLiveHeap(t *testing.T) {
	const (
		perObject         = 8400
		perObjectAndProxy = 250
	)
	few, many, proxies := size{1, 100, 1}, size{1, 1000, 1}, size{1, 1000, 11}
	small := liveHeap(t, few, anySize)
	objects := int64(many.objects - few.objects)
	large := liveHeap(t, many, func(bytes int64) bool { return bytes-small <= perObject*objects })
	pairs := int64((proxies.proxies - many.proxies) * many.objects)
	manyProxies := liveHeap(t, proxies, func(bytes int64) bool { return bytes-large <= perObjectAndProxy*pairs })
	t.Logf("%d bytes for an object, at most %d are allowed; %d for each with one more proxy, at most %d are allowed",
		(large-small)/objects, perObject, (manyProxies-large)/pairs, perObjectAndProxy)
}

// BenchmarkLiveHeap reports the live heap, including the objects and their part of a proxy's state.
func BenchmarkLiveHeap(b *testing.B) {
	for _, size := range []size{{1, 1000, 1}, {1, 1000, 10}, {1, 10_000, 1}, {100, 10_000, 1}} {
		b.Run(size.String(), func(b *testing.B) {
			for b.Loop() {
				bytes := liveHeap(b, size, anySize)
				b.ReportMetric(float64(bytes)/1e6, "MB")
				b.ReportMetric(float64(bytes)/float64(size.objects), "B/object")
			}
		})
	}
}
