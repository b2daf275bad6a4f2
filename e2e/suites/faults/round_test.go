package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	// convergeLimit bounds the wait for the new weight. It is well above what is
	// allowed, and above what those watches take, so that a round that is too slow
	// still gives a figure.
	convergeLimit = 150 * time.Second
	// lead is the time that the load runs before anything happens.
	lead = 600 * time.Millisecond
	// sample is the number of requests to each proxy that a split is judged by.
	sample = 150
	// stableColor and canaryColor are what the two sides answer.
	stableColor = "blue"
	canaryColor = "yellow"
	// askPause is the time between two attempts to ask for a step while the API
	// server is away, and between two looks for a part that is.
	askPause = 50 * time.Millisecond
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
	part  part
	drawn chance
	// down is the time from the kill to the end of the fault. idle is the time
	// from there, or from the promotion if that came later, until the controller
	// asked for the new weight; converged the time from there, or from the end
	// of the fault if that came later, until it was in force everywhere.
	down, idle, converged time.Duration
	tally                 trace.Tally
	strays                []string
	// lag is how late the load client was at most, timeline what was seen when.
	lag      time.Duration
	timeline []string
	// wrong says that requests were not split as asked, overload that this
	// machine couldn't keep the load up; nil if they were, and it could.
	wrong, overload error
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
	prey, err := victim(ctx, b, p, drawn.turn)
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
		err = seen.converge(ctx, b, s.pause(n), to)
		o.down, o.idle, o.converged = seen.down(), seen.idle(), seen.converged()
	}
	if err == nil {
		o.wrong = load.Split(ctx, canaryColor, to, sample)
		if !errors.Is(o.wrong, bed.ErrSplit) {
			o.wrong, err = nil, o.wrong
		}
	}
	outages := map[string]trace.Outage{}
	if p.proxy {
		outages[before.pod] = seen.outage
	}
	o.tally, o.overload = load.Stop(outages)
	o.lag, o.strays = load.Lag(), b.Record.Strays(began, from, to)
	o.timeline = append(seen.draw(began), b.Record.Timeline(began)...)
	o.timeline = append(o.timeline, o.tally.Draw(began, bed.RequestTimeout)...)
	return o, err
}

// course is what happened in a round, and when.
type course struct {
	outage trace.Outage // from the kill to the end of the process
	back   time.Time    // the part works again
	// accepted is when the API server took the promotion, taken when the
	// controller had written the step down, asked when it called its router for
	// the weight, reached when that was in force.
	accepted, taken, asked, reached time.Time
}

// breakAndAsk kills a process around the moment at which the next step is asked
// for, and returns when the part works again and the promotion was accepted.
func breakAndAsk(ctx context.Context, b *bed.Bed, p part, prey inside.Process, before mark, pause int, at time.Time, offset time.Duration) (*course, error) {
	seen := new(course)
	asked := make(chan promotion, 1)
	go func() { asked <- promote(ctx, b, pause, at) }()
	err := sleepUntil(ctx, at.Add(offset))
	if err == nil {
		seen.outage.Asked, seen.outage.Gone, err = prey.Kill(ctx)
	}
	if err == nil {
		seen.back, err = awaitBack(ctx, func(ctx context.Context) (bool, error) { return p.back(ctx, b, prey, before) })
	}
	accepted := <-asked
	seen.accepted = accepted.at
	if err := errors.Join(err, accepted.err); err != nil {
		return seen, fmt.Errorf("after the kill of %s: %w; %s", p.name, err, b.Record.Now())
	}
	return seen, nil
}

// converge waits until the weight is in force everywhere.
func (c *course) converge(ctx context.Context, b *bed.Bed, pause, weight int) error {
	reached, err := b.Await(ctx, fmt.Sprintf("weight %d in force everywhere", weight), convergeLimit, func() bool {
		return b.Record.Now().Has(weight, len(b.Proxies))
	})
	c.reached = reached
	if err != nil {
		return err
	}
	// The controller writes a step down before it asks its router for it. That
	// version of the Rollout may be read here later than the weight.
	_, err = b.Await(ctx, "the Rollout's step to be read", steadyLimit, func() bool {
		c.taken = b.Record.StepTaken(pause + 1)
		return !c.taken.IsZero()
	})
	if err != nil {
		return err
	}
	// The log has it once the call has come back. A controller that was killed in
	// the call leaves nothing: then the step counts.
	logged, err := b.Asked(weight, c.taken, c.reached)
	c.asked = later(c.taken, logged)
	return err
}

// down, idle and converged are the times that the outcome of a round has.
func (c *course) down() time.Duration { return c.back.Sub(c.outage.Asked) }
func (c *course) idle() time.Duration { return max(0, c.asked.Sub(later(c.back, c.accepted))) }
func (c *course) converged() time.Duration {
	return max(0, c.reached.Sub(later(c.back, c.asked)))
}

// draw draws the course of a round with the times since a moment.
func (c *course) draw(began time.Time) []string {
	var parts []string
	for _, moment := range []struct {
		name string
		at   time.Time
	}{
		{"killed", c.outage.Asked},
		{"gone", c.outage.Gone},
		{"works again", c.back},
		{"promotion accepted", c.accepted},
		{"step taken", c.taken},
		{"weight asked for", c.asked},
		{"in force", c.reached},
	} {
		if !moment.at.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %+.3f s", moment.name, moment.at.Sub(began).Seconds()))
		}
	}
	return []string{strings.Join(parts, ", ")}
}

// later is the later one of two moments.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
	ctx, cancel := context.WithTimeout(ctx, downLimit)
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
			return time.Time{}, errors.Join(fmt.Errorf("to come back: %w (%s)", bed.ErrNotReached, downLimit), err)
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
	ctx, cancel := context.WithTimeout(ctx, downLimit)
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
