package server

import (
	"context"
	"slices"
	"sync"
)

// RunEach runs a goroutine for each member of a set until ctx ends, and returns after all of them. It calls members at
// the start and after each signal of changed. The context of a member that leaves the set ends, and RunEach waits for
// its goroutine: a member that returns immediately has only one goroutine at a time.
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
			if _, isRunning := stops[member]; !isRunning {
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

// start runs a goroutine until stop is called. stop returns after the goroutine.
func start(ctx context.Context, run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
