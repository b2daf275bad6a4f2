package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
)

const (
	// lead is the time that the load runs before anything happens.
	lead = 600 * time.Millisecond
	// sample is the number of requests to each proxy that a split is judged by.
	sample = 150
	// stableColor and canaryColor are what the two sides answer.
	stableColor = "blue"
	canaryColor = "yellow"
	// nudgePause is the time between two nudges.
	nudgePause = time.Second
)

// plan is the Rollout that all rounds are steps of: one pod, whatever the
// weight, and then weights up and down in steps that a small sample can tell.
type plan struct{ weights []int }

// newPlan is long enough for that many rounds.
func newPlan(rounds int) plan {
	turn := []int{20, 40, 60, 80, 60, 40}
	var s plan
	for i := range rounds + 1 {
		s.weights = append(s.weights, turn[i%len(turn)])
	}
	return s
}

func (s plan) steps() []testbed.Step {
	steps := []testbed.Step{testbed.Pods(1)}
	for _, weight := range s.weights {
		steps = append(steps, testbed.SetWeight(weight), testbed.Pause())
	}
	return steps
}

// pause is the number of the step at which round n begins.
func (plan) pause(n int) int { return 2 + 2*n }

// draw is what was drawn for a round.
type draw struct {
	// offset is how much later than the promotion the kill comes; negative is
	// before it.
	offset time.Duration
	// turn chooses one of several processes.
	turn int
}

// outcome is what a round has found.
type outcome struct {
	times

	component  component
	drawn      draw
	tally      trace.Tally
	unexpected []string
	// wrong says that requests were not split as asked, nil if they were.
	wrong error
	// stalled is the longest time for which the machine stood still, timeline what was seen when.
	stalled  time.Duration
	timeline []string
}

// round is one step of the canary in which one process is killed. An error
// means that the test could not go on; whatever the system did wrong is in the
// outcome.
func round(ctx context.Context, b *testbed.Testbed, stalls *stall.Detector, p component, s plan, n int,
	drawn draw) (outcome, error) {
	o := outcome{component: p, drawn: drawn}
	from, to := s.weights[n], s.weights[n+1]
	if err := b.AwaitPause(ctx, s.pause(n), from); err != nil {
		return o, err
	}
	process, err := victim(b, p, drawn.turn)
	if err != nil {
		return o, err
	}
	var before stateBefore
	err = testbed.Repeat(ctx, "the state of "+p.name, func() (err error) {
		before, err = readState(ctx, b, p, process)
		return err
	})
	if err != nil {
		return o, err
	}
	load, err := b.StartLoad(ctx, b.Proxies...)
	if err != nil {
		return o, err
	}
	began := time.Now()
	observed, err := killAndPromote(ctx, b, p, process, before, s.pause(n), began.Add(lead), drawn.offset)
	if err == nil {
		o.wrong, err = observed.converge(ctx, b, load, s.pause(n), to)
	}
	if err == nil {
		o.times = observed.times()
	}
	outages := map[string]trace.Outage{}
	if p.proxy {
		outages[before.pod] = observed.outage
	}
	o.tally, _ = load.Stop(outages) // what this machine was too busy to send counts as failed there
	o.stalled, o.unexpected = stalls.Largest(began, time.Now()), b.Record.UnexpectedWeights(began, from, to)
	o.timeline = append(observed.describe(began), b.Record.Timeline(began)...)
	o.timeline = append(o.timeline, o.tally.Describe(began, testbed.RequestTimeout())...)
	return o, err
}

// converge waits until a weight is in force everywhere, requests are split so, and
// the router has answered again. A wrong split is the system's, any other error
// ends the test.
func (c *timeline) converge(ctx context.Context, b *testbed.Testbed, load *testbed.Load, pause,
	weight int) (wrong, err error) {
	if err := c.awaitWeight(ctx, b, pause, weight); err != nil {
		return nil, err
	}
	if err := load.Split(ctx, canaryColor, weight, sample); errors.Is(err, testbed.ErrSplit) {
		wrong = err
	} else if err != nil {
		return nil, err
	}
	return wrong, c.awaitRecovery(ctx, b)
}

// killAndPromote kills a process around the moment at which the next step is asked
// for, and returns when the part works again and the promotion was accepted.
func killAndPromote(ctx context.Context, b *testbed.Testbed, p component, process inside.Process, before stateBefore,
	pause int, at time.Time, offset time.Duration) (*timeline, error) {
	timeline := &timeline{routerRestarted: p.router}
	asked := make(chan promotion, 1)
	go func() { asked <- promote(ctx, b, pause, at) }()
	err := sleepUntil(ctx, at.Add(offset))
	if err == nil {
		timeline.outage.Signaled, timeline.outage.Gone, err = kill(ctx, p, process)
	}
	timeline.outage.Back = timeline.outage.Signaled
	if err == nil && p.back != nil {
		timeline.outage.Back, err = awaitBack(ctx,
			func(ctx context.Context) (bool, error) { return p.back(ctx, b, process, before) })
	}
	accepted := <-asked
	timeline.accepted = accepted.at
	if err := errors.Join(err, accepted.err); err != nil {
		return timeline, fmt.Errorf("after the kill of %s: %w; %s", p.name, err, b.Record.Now())
	}
	return timeline, nil
}

// kill ends a process as `kill -9` does, unless nothing is to be killed.
func kill(ctx context.Context, p component, process inside.Process) (asked, gone time.Time, err error) {
	if p.program == "" {
		now := time.Now()
		return now, now, nil
	}
	return process.Kill(ctx)
}

// sleepUntil waits for a moment.
func sleepUntil(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// awaitBack asks until a part is back, and returns when that was. While the API
// server is away, nothing can be asked.
func awaitBack(ctx context.Context, back func(context.Context) (bool, error)) (time.Time, error) {
	var last error
	err := await.Until(ctx, "the part to come back", func() bool {
		is, err := back(ctx)
		last = err
		return is
	}, func() string { return fmt.Sprintf("it is away: %v", last) })
	return time.Now(), err
}

// promotion says when the API server took a promotion.
type promotion struct {
	at  time.Time
	err error
}

// promote asks for the step after a pause, as `kubectl argo rollouts promote`
// does, at a moment, and again while the API server doesn't take it. An answer
// may be lost on its way although the promotion was taken; the version that is
// asked of then is gone, so that no step is ever promoted twice.
func promote(ctx context.Context, b *testbed.Testbed, pause int, at time.Time) promotion {
	if err := sleepUntil(ctx, at); err != nil {
		return promotion{err: err}
	}
	var last, refusal error
	err := await.Until(ctx, "the promotion to be accepted", func() bool {
		state := b.Record.Now()
		index := state.Rollout.Status.CurrentStepIndex
		if index == nil || *index != pause || !state.Rollout.Paused() {
			return true // taken, but its answer was lost
		}
		last = b.MergePatch(ctx, testbed.RolloutPath+"/status", map[string]any{
			"metadata": map[string]any{"resourceVersion": strconv.FormatInt(state.RolloutRevision, 10)},
			"status":   map[string]any{"pauseConditions": nil},
		}, nil)
		var refused testbed.StatusError
		if errors.As(last, &refused) && refused/100 == 4 && refused != http.StatusConflict &&
			refused != http.StatusTooManyRequests {
			refusal = last
		}
		return last == nil || refusal != nil
	}, func() string { return fmt.Sprint(last) })
	return promotion{at: time.Now(), err: errors.Join(err, refusal)}
}
