package canary

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

const (
	// within bounds the way to a pause: pods start meanwhile.
	within = 60 * time.Second
	// sample is the number of requests to each proxy that a split is judged by.
	sample = 150
	// afterwards is how long the load goes on when a canary has ended: its pods
	// serve on for 10 s, and then their connections end.
	afterwards = 12 * time.Second
)

// patient keeps the kubelet from taking a proxy that stands still out of service
// and from starting it anew: what the router and the interceptor make of it is
// to be seen.
func patient() map[string]any {
	return map[string]any{
		"readinessProbe": map[string]any{"failureThreshold": 600},
		"livenessProbe":  map[string]any{"failureThreshold": 600},
	}
}

// One cluster serves all cases, each beginning where the one before has left the
// application: on its last stable colour.
func TestCanary(t *testing.T) {
	b := bed.Up(t, provider.Wishes{})
	b.Deploy(t, patient())
	stable := "blue"
	for _, c := range []struct {
		name, next string
		run        func(t *testing.T, b *bed.Bed, c canary)
		promoted   bool
	}{
		{"promote full at 50", "yellow", promoteFull, true},
		{"abort at 80", "green", abortAt80, false},
		{"rollback at 50", "orange", rollback, false},
		{"100 as last step", "purple", fullWeight, true},
		{"a proxy stands still", "red", standstill, false},
	} {
		if !t.Run(c.name, func(t *testing.T) { c.run(t, b, canary{from: stable, to: c.next}) }) {
			t.FailNow() // the next case has nothing to begin with
		}
		if c.promoted {
			stable = c.next
		}
	}
}

// canary is a canary from one colour to another.
type canary struct{ from, to string }

func promoteFull(t *testing.T, b *bed.Bed, c canary) {
	t.Helper()
	play(t, b, c, []int{20, 50, 80}, func(ctx context.Context, load *bed.Load) ([]int, string, error) {
		if err := through(ctx, b, load, c.to, 20, 50); err != nil {
			return nil, "", err
		}
		return []int{0, 20, 50, 100, 0}, c.to, b.Argo(ctx, "promote", bed.App, "--full")
	})
}

func abortAt80(t *testing.T, b *bed.Bed, c canary) {
	t.Helper()
	play(t, b, c, []int{20, 50, 80}, func(ctx context.Context, load *bed.Load) ([]int, string, error) {
		if err := through(ctx, b, load, c.to, 20, 50, 80); err != nil {
			return nil, "", err
		}
		return []int{0, 20, 50, 80, 0}, c.from, b.Argo(ctx, "abort", bed.App)
	})
}

func rollback(t *testing.T, b *bed.Bed, c canary) {
	t.Helper()
	play(t, b, c, []int{20, 50, 80}, func(ctx context.Context, load *bed.Load) ([]int, string, error) {
		if err := through(ctx, b, load, c.to, 20, 50); err != nil {
			return nil, "", err
		}
		return []int{0, 20, 50, 0}, c.from, b.SetImage(ctx, c.from)
	})
}

func fullWeight(t *testing.T, b *bed.Bed, c canary) {
	t.Helper()
	play(t, b, c, []int{50, 100}, func(ctx context.Context, load *bed.Load) ([]int, string, error) {
		if err := through(ctx, b, load, c.to, 50, 100); err != nil {
			return nil, "", err
		}
		return []int{0, 50, 100, 0}, c.to, b.Argo(ctx, "promote", bed.App)
	})
}

// play runs a canary with these steps under load. work goes through them as far
// as it wants, ends the canary and says which weights that has asked for and
// which colour is to serve then. No request may fail, and nobody may see another
// weight, or one again.
func play(t *testing.T, b *bed.Bed, c canary, weights []int, work func(context.Context, *bed.Load) (asked []int, left string, err error)) {
	t.Helper()
	ctx := t.Context()
	var steps []bed.Step
	for _, weight := range weights {
		steps = append(steps, bed.SetWeight(weight), bed.Pause())
	}
	if err := b.Settle(ctx, c.from, steps...); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	load, err := b.StartLoad(ctx, b.Proxies...)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := canaryUnder(ctx, b, c, load, work)
	tally, overload := load.Stop(nil)
	report(t, b, began, tally, asked)
	for _, err := range []error{err, overload} {
		if err != nil {
			t.Error(err)
		}
	}
}

// canaryUnder runs a canary to its end, whichever that is, and the load beyond it.
func canaryUnder(ctx context.Context, b *bed.Bed, c canary, load *bed.Load, work func(context.Context, *bed.Load) ([]int, string, error)) ([]int, error) {
	if err := b.SetImage(ctx, c.to); err != nil {
		return nil, err
	}
	asked, left, err := work(ctx, load)
	if err != nil {
		return asked, err
	}
	if err := b.Ended(ctx); err != nil {
		return asked, err
	}
	// Workers take the end of a canary over one by one, as any split.
	if err := load.Split(ctx, left, 100, sample); err != nil {
		return asked, err
	}
	timer := time.NewTimer(afterwards)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return asked, nil
}

// through goes to the pause of each of these steps, by promotion from the second
// one on, and measures its split.
func through(ctx context.Context, b *bed.Bed, load *bed.Load, color string, weights ...int) error {
	for i, weight := range weights {
		if i > 0 {
			if err := b.Argo(ctx, "promote", bed.App); err != nil {
				return err
			}
		}
		if err := b.AtPause(ctx, 1+2*i, weight, within); err != nil {
			return err
		}
		if err := load.Split(ctx, color, weight, sample); err != nil {
			return err
		}
	}
	return nil
}

// report judges and prints what was seen.
func report(t *testing.T, b *bed.Bed, began time.Time, tally trace.Tally, asked []int) {
	t.Helper()
	out := t.Output()
	fmt.Fprintf(out, "%d requests, %d failed; weights asked for %v\n  %s\n", tally.Sent, tally.Failed, asked, strings.Join(b.Record.Timeline(began), "\n  "))
	if tally.Failed > 0 || tally.Sent == 0 {
		t.Errorf("%d of %d requests failed: %v\n%s", tally.Failed, tally.Sent, tally.Reasons,
			strings.Join(tally.Draw(began, bed.RequestTimeout), "\n"))
	}
	for _, stray := range b.Record.Strays(began, asked...) {
		t.Errorf("a weight that nobody asked for: %s", stray)
	}
}
