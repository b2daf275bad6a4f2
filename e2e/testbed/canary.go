package testbed

import (
	"context"
	"errors"
	"time"
)

// Sample is the number of requests to each proxy in a measurement of the traffic split.
const Sample = 150

// Canary is the plan of a canary that runs under load.
type Canary struct {
	// From is the color of the stable version, To that of the canary. Final is the color that has to receive all requests
	// after the end.
	From, To, Final string
	// Weights are the weights of the steps. A pause follows each of them.
	Weights []int
	// Requested are all weights in the order in which they are requested, with the initial 0 and the final weight.
	Requested []int
	// Load are the proxies under load; empty means all.
	Load []Proxy
	// ThroughIngress sends the load of two proxies to the Ingress controller instead: see StartIngressLoad.
	ThroughIngress bool
	// Afterwards is how long the load continues after the end of the canary.
	Afterwards time.Duration
}

// Trial is a running canary.
type Trial struct {
	testbed *Testbed
	canary  Canary
	load    *Load
	verdict Verdict
}

// RunCanary runs a canary under load and applies every check. The callback steps drives it through its steps and
// requests its end. An error of the callback becomes a finding, like every other failure.
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
	began := time.Now()
	var err error
	if t.load, err = b.startLoad(ctx, c); err != nil {
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

// startLoad starts the load of a canary.
func (b *Testbed) startLoad(ctx context.Context, c Canary) (*Load, error) {
	switch {
	case c.ThroughIngress:
		return b.StartIngressLoad(ctx)
	case len(c.Load) > 0:
		return b.StartLoad(ctx, c.Load...)
	default:
		return b.StartLoad(ctx, b.Proxies...)
	}
}

// RunSteps goes to the pause of each step and measures its traffic split. It promotes from the second step on. An error
// means that a step was not reached.
func (t *Trial) RunSteps(ctx context.Context, weights ...int) error {
	for i, weight := range weights {
		if err := t.RunStep(ctx, i, weight); err != nil {
			return err
		}
	}
	return nil
}

// RunStep goes to the pause of step i, counted from 0, and measures its traffic split. It promotes unless i is 0. An
// error means that the step was not reached.
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

// Measure measures the traffic split. A wrong split becomes a finding. An error means that the measurement itself
// failed.
func (t *Trial) Measure(ctx context.Context, weight int) error {
	return t.measure(ctx, CheckSplit, t.canary.To, weight)
}

func (t *Trial) measure(ctx context.Context, check Check, color string, weight int) error {
	sample := Sample
	if t.canary.ThroughIngress {
		sample = 2 * Sample
	}
	err := t.load.Split(ctx, color, weight, sample)
	if errors.Is(err, ErrSplit) {
		t.verdict.add(check, err.Error())
		return nil
	}
	return err
}

// finish waits for the end of the canary and checks the final traffic split.
func (t *Trial) finish(ctx context.Context) {
	if err := t.testbed.awaitEnd(ctx); err != nil {
		t.verdict.add(CheckEnd, err.Error())
	}
	// Envoy's workers apply the end of a canary one after the other, like any route update.
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
