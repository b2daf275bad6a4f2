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
	// lead is the time of load before the first event.
	lead = 600 * time.Millisecond
	// sample is the number of requests to each proxy in the measurement of a split.
	sample = 150
	// stableColor and canaryColor are the responses of the two sides.
	stableColor = "blue"
	canaryColor = "yellow"
	// nudgePause is the time between two changes by nudge.
	nudgePause = time.Second
)

// plan is the Rollout of all rounds. It has one canary Pod at any weight, and steps up and down that a small sample can
// distinguish.
type plan struct{ weights []int }

// newPlan returns a plan for that many rounds.
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

// pause returns the index of the step at which round n starts.
func (plan) pause(n int) int { return 2 + 2*n }

// draw contains the random values of a round.
type draw struct {
	// offset is the time from the promotion to the kill; negative is before it.
	offset time.Duration
	// turn selects one of several processes.
	turn int
}

// outcome is the result of a round.
type outcome struct {
	times

	component  component
	drawn      draw
	tally      trace.Tally
	unexpected []string
	// splitErr is the error of a wrong traffic split, nil if it was correct.
	splitErr error
	// stalled is the longest stall of the machine. timeline describes the observations.
	stalled  time.Duration
	timeline []string
}

// round runs one step of the canary and kills one process during it. An error means that the test cannot continue.
// Faults of the system are in the outcome.
func round(ctx context.Context, b *testbed.Testbed, stalls *stall.Detector, p component, s plan, n int,
	drawn draw,
) (outcome, error) {
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
		o.splitErr, err = observed.converge(ctx, b, load, s.pause(n), to)
	}
	if err == nil {
		o.times = observed.times()
	}
	outages := map[string]trace.Outage{}
	if p.proxy {
		outages[before.pod] = observed.outage
	}
	o.tally, _ = load.Stop(outages) // requests that this machine was too busy to send count as failed
	o.stalled, o.unexpected = stalls.Largest(began, time.Now()), b.Record.UnexpectedWeights(began, from, to)
	o.timeline = append(observed.describe(began), b.Record.Timeline(began)...)
	o.timeline = append(o.timeline, o.tally.Describe(began, testbed.RequestTimeout())...)
	return o, err
}

// converge waits until a weight is active on all proxies, measures the split, and waits until the router has verified a
// weight again. A wrong split is a fault of the system, any other error ends the test.
func (c *timeline) converge(ctx context.Context, b *testbed.Testbed, load *testbed.Load, pause,
	weight int,
) (wrong, err error) {
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

// killAndPromote kills a process around the time of a promotion. It returns when the component works again and the
// promotion was accepted.
func killAndPromote(ctx context.Context, b *testbed.Testbed, p component, process inside.Process, before stateBefore,
	pause int, at time.Time, offset time.Duration,
) (*timeline, error) {
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

// kill kills a process like `kill -9`, unless the component has no program.
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

// awaitBack polls until a component works again, and returns the time of that. It ignores errors, because the API
// server may be unavailable.
func awaitBack(ctx context.Context, back func(context.Context) (bool, error)) (time.Time, error) {
	var last error
	err := await.Until(ctx, "the part to come back", func() bool {
		ok, err := back(ctx)
		last = err
		return ok
	}, func() string { return fmt.Sprintf("it is away: %v", last) })
	return time.Now(), err
}

// promotion is when the API server accepted a promotion.
type promotion struct {
	at  time.Time
	err error
}

// promote requests the step after a pause at a moment, like `kubectl argo rollouts promote`. It repeats the request
// while the API server does not accept it. A response may be lost although the promotion was accepted. The repeated
// request then has an outdated resourceVersion, so no step is promoted twice.
func promote(ctx context.Context, b *testbed.Testbed, pause int, at time.Time) promotion {
	if err := sleepUntil(ctx, at); err != nil {
		return promotion{err: err}
	}
	var last, refusal error
	err := await.Until(ctx, "the promotion to be accepted", func() bool {
		state := b.Record.Now()
		index := state.Rollout.Status.CurrentStepIndex
		if index == nil || *index != pause || !state.Rollout.Paused() {
			return true // accepted, but the response was lost
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
