package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

const (
	// steadyLimit bounds the wait for the pause that a round begins at: a weight
	// that was not verified at once is asked about again after 10 s, and watches
	// of the controllers that an API server's end has cut come back after up to a
	// minute each.
	steadyLimit = 150 * time.Second
	// convergeLimit bounds the waits for the new weight and for the router. It is
	// well above what is allowed, and above what those watches take, so that a round
	// that is too slow still gives a figure.
	convergeLimit = 150 * time.Second
	// backLimit bounds the wait for a part's return, in the same way.
	backLimit = 2 * time.Minute
	// lead is the time that the load runs before anything happens.
	lead = 600 * time.Millisecond
	// sample is the number of requests to each proxy that a split is judged by.
	sample = 150
	// stableColor and canaryColor are what the two sides answer.
	stableColor = "blue"
	canaryColor = "yellow"
	// askPause is the time between two attempts to ask for a step while the API
	// server is away, between two looks for a part that is, and at a log.
	askPause = 50 * time.Millisecond
	// nudgePause is the time between two nudges.
	nudgePause = time.Second
)

// script is the Rollout that all rounds are steps of: one pod, whatever the
// weight, and then weights up and down in steps that a small sample can tell.
type script struct{ weights []int }

// newScript is long enough for that many rounds.
func newScript(rounds int) script {
	turn := []int{20, 40, 60, 80, 60, 40}
	var s script
	for i := range rounds + 1 {
		s.weights = append(s.weights, turn[i%len(turn)])
	}
	return s
}

func (s script) steps() []bed.Step {
	steps := []bed.Step{bed.Pods(1)}
	for _, weight := range s.weights {
		steps = append(steps, bed.SetWeight(weight), bed.Pause())
	}
	return steps
}

// pause is the number of the step at which round n begins.
func (script) pause(n int) int { return 2 + 2*n }

// chance is what was drawn for a round.
type chance struct {
	// offset is how much later than the promotion the kill comes; negative is
	// before it.
	offset time.Duration
	// turn chooses one of several processes.
	turn int
}

// outcome is what a round has found.
type outcome struct {
	times

	part   part
	drawn  chance
	tally  trace.Tally
	strays []string
	// wrong says that requests were not split as asked, nil if they were.
	wrong error
	// lag is how late the load client was at most, late when it was too late,
	// timeline what was seen when.
	lag      time.Duration
	late     []trace.Span
	timeline []string
}

// round is one step of the canary in which one process is killed. An error
// means that the test could not go on; whatever the system did wrong is in the
// outcome.
func round(ctx context.Context, b *bed.Bed, p part, s script, n int, drawn chance) (outcome, error) {
	o := outcome{part: p, drawn: drawn}
	from, to := s.weights[n], s.weights[n+1]
	if err := b.AtPause(ctx, s.pause(n), from, steadyLimit); err != nil {
		return o, err
	}
	prey, err := victim(b, p, drawn.turn)
	if err != nil {
		return o, err
	}
	before, err := markOf(ctx, b, p, prey)
	if err != nil {
		return o, err
	}
	load, err := b.StartLoad(ctx, b.Proxies...)
	if err != nil {
		return o, err
	}
	began := time.Now()
	seen, err := breakAndAsk(ctx, b, p, prey, before, s.pause(n), began.Add(lead), drawn.offset)
	if err == nil {
		o.wrong, err = seen.settle(ctx, b, load, s.pause(n), to)
	}
	if err == nil {
		o.times = seen.times()
	}
	outages := map[string]trace.Outage{}
	if p.proxy {
		outages[before.pod] = seen.outage
	}
	o.tally, _ = load.Stop(outages) // what this machine was too busy to send counts as failed there
	o.lag, o.late, o.strays = load.Lag(), load.Late(busy), b.Record.Strays(began, from, to)
	o.timeline = append(seen.draw(began), b.Record.Timeline(began)...)
	o.timeline = append(o.timeline, o.tally.Draw(began, bed.RequestTimeout)...)
	return o, err
}

// settle waits until a weight is in force everywhere, requests are split so, and
// the router has answered again. A wrong split is the system's, any other error
// ends the test.
func (c *course) settle(ctx context.Context, b *bed.Bed, load *bed.Load, pause, weight int) (wrong, err error) {
	if err := c.converge(ctx, b, pause, weight); err != nil {
		return nil, err
	}
	if err := load.Split(ctx, canaryColor, weight, sample); errors.Is(err, bed.ErrSplit) {
		wrong = err
	} else if err != nil {
		return nil, err
	}
	return wrong, c.recover(ctx, b)
}

// breakAndAsk kills a process around the moment at which the next step is asked
// for, and returns when the part works again and the promotion was accepted.
func breakAndAsk(ctx context.Context, b *bed.Bed, p part, prey inside.Process, before mark, pause int, at time.Time, offset time.Duration) (*course, error) {
	seen := &course{anew: p.router}
	asked := make(chan promotion, 1)
	go func() { asked <- promote(ctx, b, pause, at) }()
	err := sleepUntil(ctx, at.Add(offset))
	if err == nil {
		seen.outage.Asked, seen.outage.Gone, err = kill(ctx, p, prey)
	}
	seen.outage.Back = seen.outage.Asked
	if err == nil && p.back != nil {
		seen.outage.Back, err = awaitBack(ctx, func(ctx context.Context) (bool, error) { return p.back(ctx, b, prey, before) })
	}
	accepted := <-asked
	seen.accepted = accepted.at
	if err := errors.Join(err, accepted.err); err != nil {
		return seen, fmt.Errorf("after the kill of %s: %w; %s", p.name, err, b.Record.Now())
	}
	return seen, nil
}

// kill ends a process as `kill -9` does, unless nothing is to be killed.
func kill(ctx context.Context, p part, prey inside.Process) (asked, gone time.Time, err error) {
	if p.program == "" {
		now := time.Now()
		return now, now, nil
	}
	return prey.Kill(ctx)
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
	ctx, cancel := context.WithTimeout(ctx, backLimit)
	defer cancel()
	ticks := time.NewTicker(askPause)
	defer ticks.Stop()
	for {
		is, err := back(ctx)
		if is {
			return time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, errors.Join(fmt.Errorf("to come back: %w (%s)", bed.ErrNotReached, backLimit), err)
		case <-ticks.C:
		}
	}
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
func promote(ctx context.Context, b *bed.Bed, pause int, at time.Time) promotion {
	if err := sleepUntil(ctx, at); err != nil {
		return promotion{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, backLimit)
	defer cancel()
	for {
		state := b.Record.Now()
		index := state.Rollout.Status.CurrentStepIndex
		if index == nil || *index != pause || !state.Rollout.Paused() {
			return promotion{at: time.Now()} // taken, but its answer was lost
		}
		err := b.MergePatch(ctx, bed.RolloutPath+"/status", map[string]any{
			"metadata": map[string]any{"resourceVersion": strconv.FormatInt(state.RolloutRevision, 10)},
			"status":   map[string]any{"pauseConditions": nil},
		}, nil)
		var refused bed.StatusError
		switch {
		case err == nil:
			return promotion{at: time.Now()}
		case errors.As(err, &refused) && refused/100 == 4 && refused != http.StatusConflict && refused != http.StatusTooManyRequests:
			return promotion{err: err}
		}
		if slept := sleepUntil(ctx, time.Now().Add(askPause)); slept != nil {
			return promotion{err: errors.Join(slept, err)}
		}
	}
}
