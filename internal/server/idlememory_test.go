package server

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleMemoryIsReturnedOnce has a process that collects garbage in some intervals. Its memory is returned after the
// first interval without a collection, and not again while it stays idle.
func TestIdleMemoryIsReturnedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collected, interval atomic.Uint64
		collected.Store(7)
		var returned []uint64 // the intervals
		go returnMemory(t.Context(), collected.Load, func() {
			returned = append(returned, interval.Load())
			collected.Add(1) // as debug.FreeOSMemory does
		})
		synctest.Wait()
		for _, collections := range []uint64{3, 1, 0, 0, 0, 2, 0, 0} {
			interval.Add(1)
			collected.Add(collections)
			time.Sleep(idleInterval) // The clock is synctest's.
			synctest.Wait()
		}
		if want := []uint64{3, 7}; !slices.Equal(returned, want) {
			t.Errorf("memory was returned after the intervals %d, want %d", returned, want)
		}
	})
}

// TestIdleMemoryIsRead reads the number of collections.
func TestIdleMemoryIsRead(t *testing.T) {
	before := collections()
	runtime.GC()
	if after := collections(); after <= before {
		t.Errorf("%d collections before another one, and %d afterwards", before, after)
	}
}
