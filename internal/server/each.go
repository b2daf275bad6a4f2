package server

import (
	"context"
	"slices"
	"sync"
)

// RunEach runs a goroutine for each member of a set until ctx ends, and returns when all have ended.
// members is asked at first and whenever changed says that the set may be another one. A member that
// leaves has its context ended, and is waited for: one that leaves and is back at once has one goroutine
// at a time.
func RunEach[K comparable](
	ctx context.Context, members func() []K, changed <-chan struct{}, run func(ctx context.Context, member K),
) {
	stops := map[K]func(){}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for {
		wanted := members()
		for member, stop := range stops {
			if !slices.Contains(wanted, member) {
				stop()
				delete(stops, member)
			}
		}
		for _, member := range wanted {
			if _, runs := stops[member]; !runs {
				stops[member] = start(ctx, func(ctx context.Context) { run(ctx, member) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// start runs a goroutine until stop is called, which returns when it has ended.
func start(ctx context.Context, run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
