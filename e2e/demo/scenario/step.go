package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// step reaches one step, shows it and measures it. The first step also runs the guide's checks under load.
func (d *demo) step(ctx context.Context, r rollout, s step, first bool) error {
	if err := d.act(ctx, r, s); err != nil {
		return err
	}
	d.display.add(report.Row{
		Canary: r.String(), Step: s.name, Color: s.color, Desired: s.share(),
		Annotation: kube.ShortWeights(d.weights()), Acked: d.object.Get().AckedWeights(),
		Envoy: shortShares(d.view.Get().shares), Planned: d.Sample,
	})
	shown, err := d.awaitSplit(ctx, s)
	if err != nil {
		return err
	}
	looked := make(chan error, 1)
	if first {
		go func() { looked <- d.showGuide(ctx) }()
	} else {
		looked <- nil
	}
	err = errors.Join(d.measure(ctx, s, shown), <-looked)
	if err != nil {
		return err
	}
	if d.outcome.RunningCanary == 0 {
		d.outcome.RunningCanary = time.Since(d.Started)
	}
	return d.awaitRolloutStatus(ctx, s)
}

// act runs the user's command for the step.
func (d *demo) act(ctx context.Context, r rollout, s step) error {
	switch s.action {
	case setImage:
		return d.show(ctx, guide.Argo("set", "image", app, app+"="+guide.Image+":"+r.to))
	case promote:
		err := d.await(ctx, "the Rollout to pause, so that it can be promoted", d.Patience,
			func() bool { return d.rollout.Get().Paused() }, func() string { return d.rollout.Get().String() })
		if err != nil {
			return err
		}
		return d.show(ctx, guide.Argo("promote", app))
	case abort:
		return d.show(ctx, guide.Argo("abort", app))
	default:
		return nil
	}
}

// weights returns the last read annotation, empty if there is none.
func (d *demo) weights() string {
	text, _ := d.object.Get().Weights()
	return text
}

// hasAnnotation reports whether the annotation is that of the step: exactly the guide's text, or none.
func (d *demo) hasAnnotation(s step, want string) bool {
	object := d.object.Get()
	text, present := object.Weights()
	return object.Metadata.Name != "" && present == s.split() && text == want
}

// awaitSplit waits for the annotation, for Envoy and for the reported ACK. It returns when Envoy first ran the step's
// split.
func (d *demo) awaitSplit(ctx context.Context, s step) (time.Time, error) {
	want := ""
	if s.split() {
		want = kube.WeightsText(stable, canary, s.weight)
	}
	err := d.await(ctx, "the annotation "+kube.ShortWeights(want), s.within,
		func() bool { return d.hasAnnotation(s, want) },
		func() string {
			return fmt.Sprintf("the annotation is %s; %s", kube.ShortWeights(d.weights()), d.rollout.Get())
		})
	if err != nil {
		return time.Time{}, err
	}
	written := time.Now()
	d.display.change(func(row *report.Row) { row.Annotation = kube.ShortWeights(want) })
	err = d.await(ctx, "Envoy to run what the annotation says ("+s.shares().String()+")", d.EnvoyPatience,
		func() bool { v := d.view.Get(); return v.err == nil && v.shares.Equal(s.shares()) },
		func() string {
			return fmt.Sprintf("Envoy runs %s. The router has written the annotation: check that the interceptor runs "+
				"and that Envoy is connected to it", d.view.Get())
		})
	if err != nil {
		return time.Time{}, err
	}
	shown := d.view.Get()
	d.display.change(func(row *report.Row) { row.Envoy = shortShares(shown.shares) })
	err = d.await(ctx, "the HTTPScaledObject's status to report that every proxy has acknowledged the weights",
		d.EnvoyPatience,
		func() bool { return d.object.Get().Acked() },
		func() string {
			return fmt.Sprintf("its status.dataPlane reports %s. Envoy runs them: check that the interceptor receives its ACKs",
				d.object.Get().AckedWeights())
		})
	if err != nil {
		return time.Time{}, err
	}
	row := d.display.change(func(row *report.Row) { row.Acked = d.object.Get().AckedWeights() })
	d.screen.Print("", d.style.Heading(fmt.Sprintf("[%s] %s", report.Seconds(time.Since(d.Started)), s.name))+
		fmt.Sprintf(": desired %s %s, annotation %s, ACKed %s, Envoy runs %s (seen %s after the annotation)",
			report.Percent(row.Desired), row.Color, row.Annotation, row.Acked, row.Envoy, report.Seconds(max(0,
				shown.at.Sub(written)))))
	return shown.at, nil
}

// awaitRolloutStatus waits until the Rollout's status reports the end of a canary.
func (d *demo) awaitRolloutStatus(ctx context.Context, s step) error {
	state := func() string { return d.rollout.Get().String() }
	switch {
	case s.split():
		return nil
	case s.action == abort:
		err := d.await(ctx, "the Rollout to be aborted", d.Patience,
			func() bool { return d.rollout.Get().Status.Abort }, state)
		if err != nil {
			return err
		}
	default:
		err := d.await(ctx, "the Rollout to be Healthy", d.Patience, func() bool { return d.rollout.Get().Healthy() }, state)
		if err != nil {
			return err
		}
	}
	return d.isGone(ctx)
}

// measure counts requests that were due after Envoy ran the split, and evaluates them: a first sample and, if that is
// unsure, a second one of twice the size.
func (d *demo) measure(ctx context.Context, s step, shown time.Time) error {
	delay := d.SplitDelay
	if !s.split() {
		delay = d.EndDelay
	}
	_, err := assert.Expectation{
		Color: s.color, Share: s.share(), From: shown.Add(delay), First: d.Sample, Second: 2 * d.Sample, Rule: d.Rule,
		OnUnsure: func(first stats.Split) {
			d.screen.Print(fmt.Sprintf("  %.2f %% is %.1f σ from the desired share. A fresh sample of twice the size "+
				"decides.",
				first.Share()*100, first.Sigmas(s.share())))
		},
	}.Check(ctx, func(ctx context.Context, from time.Time, n int) (load.Window, error) {
		return d.sample(ctx, s, from, n)
	})
	if err != nil && !errors.Is(err, assert.ErrSplit) {
		return err
	}
	row := d.display.change(func(row *report.Row) {
		row.State = report.Passed
		if err != nil {
			row.State = report.Failed
		}
	})
	d.screen.Print(d.sampleLines(row)...)
	return err
}

// sample is an assert.Sample for a step. It also updates the row.
func (d *demo) sample(ctx context.Context, s step, from time.Time, n int) (load.Window, error) {
	begin := d.client.Next(from)
	var w load.Window
	// The last request is due after n/Rate, and then has its timeout.
	within := time.Duration(float64(n)/d.Rate*float64(time.Second)) + d.EndDelay + 2*d.Timeout
	err := d.await(ctx, report.Count(n)+" answers under this split", within, func() bool {
		w = d.client.Window(begin, n)
		d.display.change(func(row *report.Row) {
			row.State, row.Planned, row.Done, row.Colors = report.Measuring, n, w.Done, w.Colors
		})
		return w.Complete()
	}, func() string { return fmt.Sprintf("%d requests have ended", w.Done) })
	if err != nil {
		return w, err
	}
	if v := d.readState(ctx); v.err == nil && !v.shares.Equal(s.shares()) {
		return w, fmt.Errorf("%w: a full sample of %d requests; instead: Envoy has gone on to %s meanwhile",
			await.ErrNotReached, n, v)
	}
	since := d.client.Window(d.counted, begin+n-d.counted)
	d.counted = begin + n
	d.display.change(func(row *report.Row) {
		row.Errors += since.Failed
		row.P50, row.P99 = stats.Quantile(w.Latencies, 0.5), stats.Quantile(w.Latencies, 0.99)
		row.Sigmas = row.Split().Sigmas(s.share())
	})
	return w, nil
}

// sampleLines draws a completed sample for the transcript.
func (d *demo) sampleLines(row report.Row) []string {
	var lines []string
	for _, line := range append(d.style.Bars(row), d.style.Verdict(row)) {
		lines = append(lines, "  "+line)
	}
	return append(lines, fmt.Sprintf("  %s requests, %d failed since the last step, p50 %s, p99 %s",
		report.Count(row.Done), row.Errors, report.Latency(row.P50), report.Latency(row.P99)))
}
