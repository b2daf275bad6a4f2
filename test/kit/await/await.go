// Package await waits for conditions in tests. Every wait has the same limit, Patience: a test that gates a landing
// never fails because the machine was slow, only because a condition never came true.
package await

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// MinPatience is the lowest limit that TEST_PATIENCE may set.
const MinPatience = 2 * time.Minute

// defaultPatience is the limit without TEST_PATIENCE.
const defaultPatience = 3 * time.Minute

// pause is the time between two checks of a condition.
const pause = 10 * time.Millisecond

// ErrNotReached means that a condition did not come true within the limit.
var ErrNotReached = errors.New("not reached in time")

// Patience is the limit of a wait: 3 minutes, or the value of the environment variable TEST_PATIENCE, a duration such
// as "5m". It panics if TEST_PATIENCE is not a duration or is below MinPatience, because a lower limit measures the
// machine instead of the product.
func Patience() time.Duration {
	patience, err := patienceOf(os.Getenv("TEST_PATIENCE"))
	if err != nil {
		panic(err)
	}
	return patience
}

// patienceOf parses the value of TEST_PATIENCE.
func patienceOf(value string) (time.Duration, error) {
	if value == "" {
		return defaultPatience, nil
	}
	patience, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("TEST_PATIENCE: %w: use a duration such as 5m", err)
	}
	if patience < MinPatience {
		return 0, fmt.Errorf("TEST_PATIENCE: %s is below the minimum of %s", patience, MinPatience)
	}
	return patience, nil
}

// Until checks ready until it returns true, for at most Patience. After that the error wraps ErrNotReached and contains
// what, the limit and the result of instead. When ctx ends first, the error wraps its cause.
func Until(ctx context.Context, what string, ready func() bool, instead func() string) error {
	return Within(ctx, what, Patience(), ready, instead)
}

// Within is Until with another limit. Tests that gate a landing use limits of at least Patience; the demo uses its own
// settings.
func Within(ctx context.Context, what string, limit time.Duration, ready func() bool, instead func() string) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; so far: %s", what, context.Cause(ctx), instead())
		case <-deadline.C:
			return fmt.Errorf("%s: %w (%s); instead: %s", what, ErrNotReached, limit, instead())
		case <-ticks.C:
		}
	}
	return nil
}

// True waits until ready returns true, and ends the test with what when it does not within Patience.
func True(tb testing.TB, what string, ready func() bool) {
	tb.Helper()
	Described(tb, what, ready, func() string { return "it never came true" })
}

// Described is True for conditions whose present state helps to understand a failure: instead describes it.
func Described(tb testing.TB, what string, ready func() bool, instead func() string) {
	tb.Helper()
	if err := Until(tb.Context(), what, ready, instead); err != nil {
		tb.Fatal(err)
	}
}

// Receive returns the next value of a channel, or its zero value when it is closed. It ends the test with what when
// nothing arrives within Patience.
func Receive[T any](tb testing.TB, what string, values <-chan T) T {
	tb.Helper()
	limit := time.NewTimer(Patience())
	defer limit.Stop()
	select {
	case value := <-values:
		return value
	case <-limit.C:
		tb.Fatalf("%s: nothing arrived within %s", what, Patience())
		panic("unreachable")
	}
}

// Context returns a context for calls that have to return: it ends with the test, and after Patience.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience())
	tb.Cleanup(cancel)
	return ctx
}
