package testbed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// callInterval is the time between two calls of a Caller.
	callInterval = 50 * time.Millisecond
	// minCalls is the minimum number of calls in a check.
	minCalls = 40
	// watchDelay is the maximum delay of a watch: a Service may select the new version that much earlier than the test
	// reads that it is stable.
	watchDelay = time.Second
)

// Caller calls the Service of the stable side, one request after the other. Each has a new connection, because
// kube-proxy chooses an endpoint for each connection. It runs until the test ends.
type Caller struct {
	name string
	// stable returns the hash of the stable version.
	stable func() string

	mu      sync.Mutex
	calls   []call
	checked int
}

// call is a request with the hash of the stable version when it ended.
type call struct {
	load.Result

	stable string
}

// ended returns when the call ended.
func (c call) ended() time.Time { return c.Due.Add(c.Latency) }

// StartCaller starts to send the requests of a configuration. stable returns the hash of the Rollout's stable version.
func StartCaller(t *testing.T, name string, config load.Config, stable func() string) *Caller {
	t.Helper()
	c := &Caller{name: name, stable: stable}
	background(t, func(ctx context.Context) error {
		ticks := time.NewTicker(callInterval)
		defer ticks.Stop()
		for ctx.Err() == nil {
			c.call(context.WithoutCancel(ctx), config)
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
		return nil
	})
	return c
}

// call sends one request.
func (c *Caller) call(ctx context.Context, config load.Config) {
	began := time.Now()
	color, err := load.Probe(ctx, config)
	result := load.Result{Due: began, Latency: time.Since(began), Color: color, Err: err}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call{result, c.stable()})
}

// Check checks the calls since the previous check, of which it waits for minCalls: none failed, and the stable version
// answered all of them.
func (c *Caller) Check(ctx context.Context, t *testing.T, color string) {
	t.Helper()
	calls := c.unchecked(ctx, t)
	window := summarize(calls)
	t.Logf("%s: %d calls, %d failed, answers: %v", c.name, window.Done, window.Failed, window.Colors)
	c.checkNoneFailed(t, calls)
	if others := window.Done - window.Failed - window.Colors[color]; others > 0 {
		invariant.Broken(t, invariant.Split, "%s: %d of %d calls to the stable Service were not answered by %s: %v", c.name,
			others, window.Done, color, window.Colors)
	}
}

// CheckPromotion is Check for the time in which the version to has replaced the version from. The new version answers
// no call before it is stable, and all calls in the end.
func (c *Caller) CheckPromotion(ctx context.Context, t *testing.T, from, to string) {
	t.Helper()
	err := await.Until(ctx, c.name+": answers by "+to, func() bool {
		return isAnsweredBy(c.last(minCalls), to)
	}, func() string { return fmt.Sprint(summarize(c.last(minCalls)).Colors) })
	if err != nil {
		t.Fatal(err)
	}
	calls := c.unchecked(ctx, t)
	window := summarize(calls)
	early := misrouted(calls, to)
	t.Logf("%s: %d calls, %d failed, answers: %v, %d of them by %s before its promotion", c.name, window.Done,
		window.Failed, window.Colors, len(early), to)
	c.checkNoneFailed(t, calls)
	if others := window.Done - window.Failed - window.Colors[from] - window.Colors[to]; others > 0 || len(early) > 0 {
		invariant.Broken(t, invariant.Split, "%s: %s answered %d calls to the stable Service before it was stable: %v",
			c.name, to, len(early), window.Colors)
	}
}

// checkNoneFailed checks that no call failed.
func (c *Caller) checkNoneFailed(t *testing.T, calls []call) {
	t.Helper()
	failed := slices.IndexFunc(calls, func(c call) bool { return c.Err != nil })
	if failed >= 0 {
		invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d, the first: %v", c.name, summarize(calls).Failed,
			len(calls), calls[failed].Err)
	}
}

// unchecked waits for minCalls since the previous check, and returns all of them.
func (c *Caller) unchecked(ctx context.Context, t *testing.T) []call {
	t.Helper()
	var calls []call
	err := await.Until(ctx, fmt.Sprintf("%s: %d calls", c.name, minCalls), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		calls = slices.Clone(c.calls[c.checked:])
		return len(calls) >= minCalls
	}, func() string { return fmt.Sprintf("%d have ended", len(calls)) })
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked += len(calls)
	return calls
}

// last returns the last n calls, or all if there are fewer.
func (c *Caller) last(n int) []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls[max(0, len(c.calls)-n):])
}

// isAnsweredBy reports whether a version answered all calls.
func isAnsweredBy(calls []call, color string) bool {
	return len(calls) > 0 && summarize(calls).Colors[color] == len(calls)
}

// summarize counts the answers.
func summarize(calls []call) load.Window {
	results := make([]load.Result, len(calls))
	for i, c := range calls {
		results[i] = c.Result
	}
	return load.NewWindow(len(results), results)
}

// misrouted returns the calls that a version answered although another one was stable.
func misrouted(calls []call, color string) []call {
	promoted := slices.IndexFunc(calls, func(c call) bool { return c.stable != calls[0].stable })
	var early []call
	for _, c := range calls {
		if c.Color == color && (promoted < 0 || c.ended().Before(calls[promoted].ended().Add(-watchDelay))) {
			early = append(early, c)
		}
	}
	return early
}
