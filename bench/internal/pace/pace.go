// Package pace has benchmarks wait, and do things at a rate.
package pace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrVain says that something has not come about in time.
var ErrVain = errors.New("waited in vain")

// Wait waits for a time. Its error is that of ctx.
func Wait(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// Until looks, with a pause in between, until what it looks for is so: is returns nil. After within its error is ErrVain
// with that of the last look.
func Until(ctx context.Context, within, between time.Duration, is func() error) error {
	for end := time.Now().Add(within); ; {
		err := is()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: after %v: %w", ErrVain, within, err)
		}
		if err := Wait(ctx, between); err != nil {
			return err
		}
	}
}

// Every does something at each interval until ctx ends, numbered from 0, at most atOnce of them at a time: what takes longer than that
// allows is not made up for. What the end of ctx cuts off is no error; after any other nothing is begun.
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
