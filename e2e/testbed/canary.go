package testbed

import (
	"context"
	"errors"
	"time"
)

// Sample is the number of requests to each proxy that a split is judged by.
const Sample = 150

// Canary is a canary that is played under load.
type Canary struct {
	// From is the stable colour, To the canary's, Left the one that has to serve in
	// the end.
	From, To, Final string
	// Weights are the weights of its steps, each with a pause behind it.
	Weights []int
	// Requested are all weights that are asked for, one after the other: at first 0, and
	// in the end.
	Requested []int
	// Load are the proxies that get requests; all if there are none.
	Load []Proxy
	// Afterwards is how long the load goes on when the canary has ended.
	Afterwards time.Duration
}

// Trial is a canary that is being played.
type Trial struct {
	testbed *Testbed
	canary  Canary
	load    *Load
	verdict Verdict
}

// RunCanary plays a canary under load and judges it by every check there is. course
// takes it through its steps and asks for its end; an error of it is a finding,
// as everything that goes wrong is.
func (b *Testbed) RunCanary(ctx context.Context, c Canary, steps func(context.Context, *Trial) error) *Verdict {
	t := &Trial{testbed: b, canary: c}
	var rolloutSteps []Step
	for _, weight := range c.Weights {
		rolloutSteps = append(rolloutSteps, SetWeight(weight), Pause())
	}
	if err := b.Reset(ctx, c.From, rolloutSteps...); err != nil {
		t.verdict.add(CheckStuck, err.Error())
		return &t.verdict
	}
	proxies := c.Load
	if len(proxies) == 0 {
		proxies = b.Proxies
	}
	began := time.Now()
	var err error
	if t.load, err = b.StartLoad(ctx, proxies...); err != nil {
		t.verdict.add(CheckStuck, err.Error())
		return &t.verdict
	}
	err = b.SetImage(ctx, c.To)
	if err == nil {
		err = steps(ctx, t)
	}
	if err == nil {
		t.finish(ctx)
	} else {
		t.verdict.add(CheckStuck, err.Error())
	}
	tally, overload := t.load.Stop(nil)
	if overload != nil {
		t.verdict.add(CheckOverload, overload.Error())
	}
	t.verdict.evaluate(b.Record, began, c.Requested, tally, err == nil)
	return &t.verdict
}

// RunSteps goes to the pause of each of these steps, by promotion from the second
// one on, and measures its split. An error says that one was not reached.
func (t *Trial) RunSteps(ctx context.Context, weights ...int) error {
	for i, weight := range weights {
		if err := t.RunStep(ctx, i, weight); err != nil {
			return err
		}
	}
	return nil
}

// RunStep goes on to the pause of one step, counted from 0, by promotion unless that
// is the first one, and measures its split. An error says that it was not reached.
func (t *Trial) RunStep(ctx context.Context, i, weight int) error {
	if i > 0 {
		if err := t.testbed.Argo(ctx, "promote", App); err != nil {
			return err
		}
	}
	if err := t.testbed.AwaitPause(ctx, 1+2*i, weight); err != nil {
		return err
	}
	return t.Measure(ctx, weight)
}

// Measure measures the split. A wrong one is a finding; an error says that there
// was nothing to judge.
func (t *Trial) Measure(ctx context.Context, weight int) error {
	return t.measure(ctx, CheckSplit, t.canary.To, weight)
}

func (t *Trial) measure(ctx context.Context, check Check, color string, weight int) error {
	err := t.load.Split(ctx, color, weight, Sample)
	if errors.Is(err, ErrSplit) {
		t.verdict.add(check, err.Error())
		return nil
	}
	return err
}

// finish waits for the end of the canary and sees what it leaves.
func (t *Trial) finish(ctx context.Context) {
	if err := t.testbed.awaitEnd(ctx); err != nil {
		t.verdict.add(CheckEnd, err.Error())
	}
	// Workers take the end of a canary over one by one, as any split.
	if err := t.measure(ctx, CheckEnd, t.canary.Final, 100); err != nil {
		t.verdict.add(CheckStuck, err.Error())
	}
	timer := time.NewTimer(t.canary.Afterwards)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
