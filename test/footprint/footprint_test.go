package footprint

import (
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
)

// profileVariable is the environment variable with the file to which BenchmarkLiveHeap writes a heap profile.
const profileVariable = "FOOTPRINT_PROFILE"

// liveHeap returns the live heap of an interceptor in bytes.
func liveHeap(tb testing.TB, size size) int64 {
	tb.Helper()
	before := heapInUse()
	s := startInterceptor(tb, size)
	bytes := heapInUse() - before
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

// TestLiveHeap enforces limits on the memory of one more HTTPScaledObject, in a canary, with its Services, their
// endpoints, its status and the state of one proxy, and on the memory of one more proxy for each object. Results differ
// a little from run to run, because maps grow in steps.
func TestLiveHeap(t *testing.T) {
	const (
		perObject         = 8400
		perObjectAndProxy = 250
	)
	few, many, proxies := size{1, 100, 1}, size{1, 1000, 1}, size{1, 1000, 11}
	small, large, manyProxies := liveHeap(t, few), liveHeap(t, many), liveHeap(t, proxies)
	perFurtherObject := func() int64 { return (large - small) / int64(many.objects-few.objects) }
	object := perFurtherObject()
	// What is in flight at that moment counts, too: what is kept is the least of six.
	for range 5 {
		if object > perObject {
			t.Logf("%d bytes for an object: once more", object)
			small, large = min(small, liveHeap(t, few)), min(large, liveHeap(t, many))
			object = perFurtherObject()
		}
	}
	perProxy := func(manyProxies int64) int64 {
		return (manyProxies - large) / int64((proxies.proxies-many.proxies)*many.objects)
	}
	proxy := perProxy(manyProxies)
	// What a stream has in its buffers at that moment counts, too: what is kept is the least of six.
	for range 5 {
		if proxy > perObjectAndProxy {
			t.Logf("%d bytes for each object with one more proxy: once more", proxy)
			proxy = min(proxy, perProxy(liveHeap(t, proxies)))
		}
	}
	t.Logf("%d bytes for an object, %d for each with one more proxy", object, proxy)
	if object > perObject {
		t.Errorf("one more object costs %d bytes of the heap, at most %d are allowed", object, perObject)
	}
	if proxy > perObjectAndProxy {
		t.Errorf("one more proxy costs %d bytes for each object, at most %d are allowed", proxy, perObjectAndProxy)
	}
}

// BenchmarkLiveHeap reports the live heap, including the objects and their part of a proxy's state.
func BenchmarkLiveHeap(b *testing.B) {
	for _, size := range []size{{1, 1000, 1}, {1, 1000, 10}, {1, 10_000, 1}, {100, 10_000, 1}} {
		b.Run(size.String(), func(b *testing.B) {
			for b.Loop() {
				bytes := liveHeap(b, size)
				b.ReportMetric(float64(bytes)/1e6, "MB")
				b.ReportMetric(float64(bytes)/float64(size.objects), "B/object")
			}
		})
	}
}
