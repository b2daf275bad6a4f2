// Package pace contains waits and fixed-rate loops for benchmarks.
package pace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrTimeout is the error of a wait that reached its timeout.
var ErrTimeout = errors.New("timed out")

// Wait sleeps. Its error is ctx's.
func Wait(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// Until calls a function, with a pause in between, until it returns nil. After the timeout it returns ErrTimeout with
// the function's last error.
func Until(ctx context.Context, within, between time.Duration, check func() error) error {
	for end := time.Now().Add(within); ; {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: after %v: %w", ErrTimeout, within, err)
		}
		if err := Wait(ctx, between); err != nil {
			return err
		}
	}
}

// Every calls a function at each interval until ctx ends, numbered from 0, with at most atOnce calls in parallel. If
// the calls take too long for that, it does not make up for missed ones. A call that ctx cancels is not an error. After
// any other error no call is started.
func Every(ctx context.Context, interval time.Duration, atOnce int, do func(ctx context.Context, n int) error) error {
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-inGroup.Done():
			return group.Wait()
		case <-ticker.C:
		}
		group.Go(func() error {
			if err := do(inGroup, n); err != nil && inGroup.Err() == nil {
				return err
			}
			return nil
		})
	}
}
