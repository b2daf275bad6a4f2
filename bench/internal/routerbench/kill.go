package routerbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// firstRequeue and lastRequeue bound the delay after which the controller reconciles a Rollout again after an
	// error; it doubles each time (argo-rollouts v1.10.1 utils/queue/queue.go).
	firstRequeue, lastRequeue = time.Millisecond, 10 * time.Second
	// recoveryTimeout bounds the time from a kill to the success of a call that failed because of it.
	recoveryTimeout = 30 * time.Second
	// watchTries is the number of idle resyncs of all Rollouts in which a plugin may still read before its watch is
	// established.
	watchTries = 60
)

var (
	// errNotRecovered is returned if a call keeps failing after a kill.
	errNotRecovered = errors.New("the plugin was killed, and calls keep failing")
	// errNoWatch is returned if the plugin keeps requesting unchanged objects.
	errNoWatch = errors.New("the plugin has not established its watch")
)

// kills measures `kill -9` of the router and of the no-op plugin, each during calls of all workers. Afterwards it
// checks that every object has the requested weight.
func (r *round) kills(ctx context.Context, samples map[string]sample) error {
	for kind, runner := range map[string]*pluginRunner{killed: r.router, noKilled: r.noop} {
		if err := stopwatch.Pause(ctx); err != nil {
			return err
		}
		healed, err := r.kill(ctx, runner)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		samples[kind] = sample{Sample: stopwatch.Sample{Took: []time.Duration{healed}, Whole: healed}}
	}
	if err := r.Subject.CheckWeights(ctx, r.of, r.numbers, r.weight); err != nil {
		return fmt.Errorf("an unexpected weight: %w", err)
	}
	return r.awaitWatch(ctx)
}

// kill sets the round's weight for all Rollouts and kills the plugin when half of them have it. It returns the time
// from then until the last failed call has succeeded. As in the controller, a failed call is repeated after a delay
// that doubles.
func (r *round) kill(ctx context.Context, runner *pluginRunner) (time.Duration, error) {
	var mu sync.Mutex
	var begun, healed time.Time
	_, err := stopwatch.Calls(r.of.Workers, r.of.Calls, func(n int) error {
		if n == r.of.Calls/2 {
			mu.Lock()
			begun = time.Now()
			mu.Unlock()
			if err := runner.kill(); err != nil {
				return err
			}
		}
		failed, err := r.setUntilSuccess(ctx, runner, n)
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); (failed || n == r.of.Calls/2) && now.After(healed) {
			healed = now
		}
		return err
	})
	return healed.Sub(begun), err
}

// setUntilSuccess sets the round's weight for one Rollout, and repeats the call until it succeeds. It reports whether a
// call failed.
func (r *round) setUntilSuccess(ctx context.Context, runner *pluginRunner, n int) (failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for requeue := firstRequeue; ; requeue = min(2*requeue, lastRequeue) {
		plugin, err := runner.plugin()
		if err == nil {
			err = set(plugin, r.rollouts[n], r.weight)
		}
		if err == nil {
			return failed, nil
		}
		failed = true
		select {
		case <-ctx.Done():
			return failed, fmt.Errorf("%w: %w", errNotRecovered, err)
		case <-time.After(requeue):
		}
	}
}

// awaitWatch brings the Rollouts to rest and waits until the restarted router has established its watch: from then on,
// idle calls make no requests.
func (r *round) awaitWatch(ctx context.Context) error {
	if err := errors.Join(r.setAll(0), r.Subject.ReportStatus(ctx, r.of, r.numbers)); err != nil {
		return err
	}
	for range watchTries {
		before, err := apiserver.CountRequests(ctx, r.clients.Admin, r.Resource)
		if err != nil {
			return err
		}
		_, err = stopwatch.Calls(r.of.Workers, r.of.Calls, func(n int) error { return reconcile(r.router, r.rollouts[n]) })
		if err != nil {
			return err
		}
		after, err := apiserver.CountRequests(ctx, r.clients.Admin, r.Resource)
		if err != nil || after.Reads() == before.Reads() {
			return err
		}
		if err := stopwatch.Pause(ctx); err != nil {
			return err
		}
	}
	return errNoWatch
}
