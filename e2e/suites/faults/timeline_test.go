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

// timeline is what happened in a round, and when.
type timeline struct {
	outage trace.Outage // from the kill to the part's return
	// accepted is when the API server took the promotion, taken when the
	// controller had written the step down, with version, and reached when the
	// weight was in force.
	accepted, taken, reached time.Time
	version                  int64
	syncs                    []trace.Sync // of the controller
	routerRestarted          bool         // whether the router has to be started again
}

// times are how long a course took.
type times struct {
	// down is the time from the kill to the end of the fault. Of the time from
	// there, or from the promotion if that came later, idle is what passed without
	// the router before the controller asked for the new weight, and converged the
	// rest until that was in force everywhere.
	down, idle, converged time.Duration
	// recovered is the time from the end of the fault until the router had
	// verified a weight in a call that began afterwards, again without what passed
	// without the router.
	recovered time.Duration
	// convergence and recovery are when that was, idle times included.
	convergence, recovery trace.Span
}

// times sums up a course.
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

// awaitWeight waits until the weight is in force everywhere.
func (c *timeline) awaitWeight(ctx context.Context, b *testbed.Testbed, pause, weight int) error {
	reached, err := b.Await(ctx, fmt.Sprintf("weight %d in force everywhere", weight), func() bool {
		return b.Record.Now().HasWeight(weight, len(b.Proxies))
	})
	c.reached = reached
	if err != nil {
		return err
	}
	// The controller writes a step down before it asks its router for it. That
	// version of the Rollout may be read here later than the weight.
	_, err = b.Await(ctx, "the Rollout's step to be read", func() bool {
		c.taken, c.version = b.Record.StepReached(pause + 1)
		return !c.taken.IsZero()
	})
	return err
}

// awaitRecovery waits until the router has verified a weight again. If nothing is left
// to be done, the controller is nudged to call it; never while it may be waiting
// before it tries again, because a nudge would cut that short.
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

// nudge changes the Rollout in a way that means nothing: the controller calls its
// router for any change.
func nudge(ctx context.Context, b *testbed.Testbed) error {
	return b.MergePatch(ctx, testbed.RolloutPath, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{"faults.example.com/nudge": time.Now().String()}},
	}, nil)
}

// describe draws the course of a round with the times since a moment.
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
		{"in force", c.reached},
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

// later is the later one of two moments, earlier the other one.
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
