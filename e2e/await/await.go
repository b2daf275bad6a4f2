// Package await waits until something has come about, for no longer than it may
// take.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotReached says that something didn't come about in time.
var ErrNotReached = errors.New("not reached in time")

// pause is the time between two looks.
const pause = 10 * time.Millisecond

// Until looks again and again, and returns when ready says so. If that takes
// longer than within, the error is ErrNotReached: it names what was waited for, how
// long, and what is there instead. If ctx ends, the error is the cause of that.
func Until(ctx context.Context, what string, within time.Duration, ready func() bool, instead func() string) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; so far: %s", what, context.Cause(ctx), instead())
		case <-deadline.C:
			return fmt.Errorf("%s: %w (%s); instead: %s", what, ErrNotReached, within, instead())
		case <-ticks.C:
		}
	}
	return nil
}
