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
	// firstRequeue and lastRequeue bound the time after which the controller reconciles a Rollout again whose reconcile has failed; it doubles each time (argo-rollouts
	// v1.10.1 utils/queue/queue.go).
	firstRequeue, lastRequeue = time.Millisecond, 10 * time.Second
	// healLimit bounds the way from a kill to the success of a call that it made fail.
	healLimit = 30 * time.Second
	// watchTries is how many idle resyncs of all Rollouts a plugin may read in before it has its watch.
	watchTries = 60
)

var (
	// errNotHealed says that a call fails on and on after a kill.
	errNotHealed = errors.New("the plugin was killed, and calls go on to fail")
	// errNoWatch says that the plugin goes on asking for objects that nobody has changed.
	errNoWatch = errors.New("the plugin has no watch")
)

// kills measures `kill -9` of the router and of the plugin that does nothing, each amid calls of all workers, and sees that every object has the weight that was
// asked for afterwards.
func (r *round) kills(ctx context.Context, samples map[string]sample) error {
	for kind, kept := range map[string]*keeper{killed: r.router, noKilled: r.nothing} {
		if err := stopwatch.Settle(ctx); err != nil {
			return err
		}
		healed, err := r.kill(ctx, kept)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		samples[kind] = sample{Sample: stopwatch.Sample{Took: []time.Duration{healed}, Whole: healed}}
	}
	if err := r.Subject.Holds(ctx, r.of, r.numbers, r.weight); err != nil {
		return fmt.Errorf("a weight that nobody asked for: %w", err)
	}
	return r.awaitWatch(ctx)
}

// kill sets the round's weight for all Rollouts, kills the plugin when half of them have it, and returns how long after that the last call that failed was made
// again with success. As in the controller, a call that fails is made again after a time that doubles.
func (r *round) kill(ctx context.Context, kept *keeper) (time.Duration, error) {
	var mu sync.Mutex
	var begun, healed time.Time
	_, err := stopwatch.Calls(r.of.Workers, r.of.Calls, func(n int) error {
		if n == r.of.Calls/2 {
			mu.Lock()
			begun = time.Now()
			mu.Unlock()
			if err := kept.kill(); err != nil {
				return err
			}
		}
		failed, err := r.persist(ctx, kept, n)
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); (failed || n == r.of.Calls/2) && now.After(healed) {
			healed = now
		}
		return err
	})
	return healed.Sub(begun), err
}

// persist sets the round's weight for one Rollout, again until that succeeds. It says whether it has failed before.
func (r *round) persist(ctx context.Context, kept *keeper, n int) (failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	for requeue := firstRequeue; ; requeue = min(2*requeue, lastRequeue) {
		plugin, err := kept.plugin()
		if err == nil {
			err = set(plugin, r.rollouts[n], r.weight)
		}
		if err == nil {
			return failed, nil
		}
		failed = true
		select {
		case <-ctx.Done():
			return failed, fmt.Errorf("%w: %w", errNotHealed, err)
		case <-time.After(requeue):
		}
	}
}

// awaitWatch brings the Rollouts to rest and waits until the router, which was started again, has its watch: calls that change nothing ask nothing then.
func (r *round) awaitWatch(ctx context.Context) error {
	if err := errors.Join(r.setAll(0), r.Subject.Confirm(ctx, r.of, r.numbers)); err != nil {
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
		if err := stopwatch.Settle(ctx); err != nil {
			return err
		}
	}
	return errNoWatch
}
