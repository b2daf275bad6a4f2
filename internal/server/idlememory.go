package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// idleInterval is how long a process has to be idle until it returns its free memory.
const idleInterval = 20 * time.Second

// ReturnIdleMemory returns the free memory of an idle process to the kernel, until ctx ends. Go keeps a tenth more than
// the heap may grow to, with the garbage since the last collection. After a start, or when proxies have joined, that is
// memory that an idle process does not need again. It always returns nil.
func ReturnIdleMemory(ctx context.Context) error {
	returnMemory(ctx, collections, debug.FreeOSMemory)
	return nil
}

// returnMemory calls free when a process has been idle for idleInterval, once until it is no longer idle, until ctx
// ends. It is idle if count, the number of garbage collections, does not change. free makes one.
func returnMemory(ctx context.Context, count func() uint64, free func()) {
	ticks := time.NewTicker(idleInterval)
	defer ticks.Stop()
	last, isFreed := count(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := count()
		if now != last {
			isFreed = false
		} else if !isFreed {
			free()
			now, isFreed = count(), true
		}
		last = now
	}
}

// collections returns the number of garbage collections since the start of the process.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
