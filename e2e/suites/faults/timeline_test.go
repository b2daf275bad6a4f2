package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// timeline contains the times of the events in a round.
type timeline struct {
	outage trace.Outage // from the kill until the component works again
	// accepted is when the API server accepted the promotion. taken is when the controller had written the step, with the
	// resourceVersion version. reached is when the weight was active.
	accepted, taken, reached time.Time
	version                  int64
	syncs                    []trace.Sync // reconciliations of the controller
	routerRestarted          bool         // the router must restart
}

// times are the durations of a timeline.
type times struct {
	// down is the time from the kill to the end of the fault. The next interval starts there, or at the promotion if that
	// is later, and ends when the new weight is active on all proxies. idle is its part before the controller requested
	// the weight and without the router. converged is the rest.
	down, idle, converged time.Duration
	// recovered is the time from the end of the fault until the router had verified a weight in a later call. It excludes
	// the time without the router.
	recovered time.Duration
	// convergence and recovery are these intervals, with idle time.
	convergence, recovery trace.Span
}

// times returns the durations of the timeline.
func (c *timeline) times() times {
	verified, _ := trace.FirstVerified(c.syncs, c.outage.Back, c.routerRestarted)
	asking, _ := trace.FirstCall(c.syncs, c.version)
	t := times{
		down:        c.outage.Back.Sub(c.outage.Signaled),
		convergence: trace.Span{From: later(c.outage.Back, c.accepted), To: c.reached},
		recovery:    trace.Span{From: c.outage.Back, To: verified.Answered},
	}
	asked := trace.Span{From: t.convergence.From, To: earlier(asking.Began, c.reached)}
	t.idle = trace.Idle(c.syncs, asked, c.reached)
	t.converged = max(0, t.convergence.Length()) - t.idle
	t.recovered = t.recovery.Length() - trace.Idle(c.syncs, t.recovery, c.reached)
	return t
}

// awaitWeight waits until the weight is active on all proxies.
func (c *timeline) awaitWeight(ctx context.Context, b *testbed.Testbed, pause, weight int) error {
	reached, err := b.Await(ctx, fmt.Sprintf("weight %d active everywhere", weight), func() bool {
		return b.Record.Now().HasWeight(weight, len(b.Proxies))
	})
	c.reached = reached
	if err != nil {
		return err
	}
	// The controller writes a step before it calls its router. The test may read that version of the Rollout later than
	// the weight.
	_, err = b.Await(ctx, "the Rollout's step to be read", func() bool {
		c.taken, c.version = b.Record.StepReached(pause + 1)
		return !c.taken.IsZero()
	})
	return err
}

// awaitRecovery waits until the router has verified a weight again. If the controller has nothing to do, nudge makes it
// call the router. It never does so while the controller may be waiting for a retry, because that would shorten the
// wait.
func (c *timeline) awaitRecovery(ctx context.Context, b *testbed.Testbed) error {
	var nudged time.Time
	var refused, problem error
	err := await.Until(ctx, "the router to verify a weight again", func() bool {
		if c.syncs, problem = b.Syncs(c.outage.Signaled.Add(-lead)); problem != nil {
			return true
		}
		if _, recovered := trace.FirstVerified(c.syncs, c.outage.Back, c.routerRestarted); recovered {
			return true
		}
		if !trace.HasRouterCall(c.syncs, c.outage.Back) && time.Since(nudged) >= nudgePause {
			nudged, refused = time.Now(), nudge(ctx, b)
		}
		return false
	}, func() string { return fmt.Sprintf("the last change of the Rollout: %v", refused) })
	return errors.Join(err, problem)
}

// nudge makes a change of the Rollout without effect: the controller calls its router after any change.
func nudge(ctx context.Context, b *testbed.Testbed) error {
	return b.MergePatch(ctx, testbed.RolloutPath, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{"faults.example.com/nudge": time.Now().String()}},
	}, nil)
}

// describe describes the events of a round, with times relative to a moment.
func (c *timeline) describe(began time.Time) []string {
	var parts []string
	for _, moment := range []struct {
		name string
		at   time.Time
	}{
		{"killed", c.outage.Signaled},
		{"gone", c.outage.Gone},
		{"works again", c.outage.Back},
		{"promotion accepted", c.accepted},
		{"step taken", c.taken},
		{"active", c.reached},
	} {
		if !moment.at.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %+.3f s", moment.name, moment.at.Sub(began).Seconds()))
		}
	}
	lines := []string{strings.Join(parts, ", ")}
	for _, s := range c.syncs {
		lines = append(lines, "controller: "+s.Describe(began))
	}
	return lines
}

// later returns the later of two moments, earlier the other one.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
