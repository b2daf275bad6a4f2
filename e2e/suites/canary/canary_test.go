package canary

import (
	"context"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

const (
	// deployed is the color of the application in the guide's manifests.
	deployed = "blue"
	// afterwards is how long the load continues after the end of a canary: the Pods drain for 10 s, then their connections
	// end.
	afterwards = 12 * time.Second
)

// patient relaxes the probes, so that the kubelet neither removes a paused proxy from the Service nor restarts it. The
// test observes the reaction of the router and the interceptor.
func patient() map[string]any {
	return map[string]any{
		"readinessProbe": map[string]any{"failureThreshold": 600},
		"livenessProbe":  map[string]any{"failureThreshold": 600},
	}
}

// The cases use one cluster. Each starts from the final state of the previous one: the last stable color.
func TestCanary(t *testing.T) {
	b := testbed.Up(t, provider.Spec{})
	b.Deploy(t, patient())
	stable, ran := deployed, 0
	cases := []struct {
		name, next string
		run        func(t *testing.T, b *testbed.Testbed, from, to string)
		promoted   bool
	}{
		{"promote full at 50", "yellow", promoteFull, true},
		{"abort at 80", "green", abortAt80, false},
		{"rollback at 50", "orange", rollback, false},
		{"100 as last step", "purple", fullWeight, true},
		{"a paused proxy", "blue", standstill, false},
		{"by the kubectl plugin", "yellow", byPlugin, false},
	}
	for _, c := range cases {
		passed := t.Run(c.name, func(t *testing.T) {
			ran++
			c.run(t, b, stable, c.next)
		})
		if !passed {
			break // the next case has no defined start
		}
		if c.promoted {
			stable = c.next
		}
	}
	if ran < len(cases) {
		t.Errorf("%d of %d cases ran", ran, len(cases))
	}
}

func promoteFull(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	c := testbed.Canary{From: from, To: to, Final: to, Weights: []int{20, 50, 80}, Requested: []int{0, 20, 50, 100, 0}}
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := runSteps(ctx, t, b, trial, 20, 50); err != nil {
			return err
		}
		return b.Argo(ctx, "promote", testbed.App, "--full")
	})
}

// abortAt80 has clients in the cluster, too.
func abortAt80(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	inCluster := startClients(t, b)
	inCluster.check(t.Context(), t, from, to, 0)
	c := testbed.Canary{From: from, To: to, Final: from, Weights: []int{20, 50, 80}, Requested: []int{0, 20, 50, 80, 0}}
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		for i, weight := range c.Weights {
			if err := runStep(ctx, t, b, trial, i, weight); err != nil {
				return err
			}
			inCluster.check(ctx, t, from, to, weight)
		}
		return b.Argo(ctx, "abort", testbed.App)
	})
	inCluster.check(t.Context(), t, from, to, 0)
	inCluster.stop(t, from)
}

func rollback(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	c := testbed.Canary{From: from, To: to, Final: from, Weights: []int{20, 50, 80}, Requested: []int{0, 20, 50, 0}}
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := runSteps(ctx, t, b, trial, 20, 50); err != nil {
			return err
		}
		return b.SetImage(ctx, from)
	})
}

func fullWeight(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	c := testbed.Canary{From: from, To: to, Final: to, Weights: []int{50, 100}, Requested: []int{0, 50, 100, 0}}
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := runSteps(ctx, t, b, trial, 50, 100); err != nil {
			return err
		}
		return b.Argo(ctx, "promote", testbed.App)
	})
}

// runCanary runs a canary. No check may report anything, nor may doctor before and after it. `split --watch` must print
// all weights in order. The verdict covers the Envoys.
func runCanary(t *testing.T, b *testbed.Testbed, c testbed.Canary, steps func(context.Context, *testbed.Trial) error) {
	t.Helper()
	c.Afterwards = afterwards
	checkDoctor(t.Context(), t, b, "before")
	seen, end := follow(t.Context(), b)
	defer end()
	verdict := b.RunCanary(t.Context(), c, steps)
	verdict.Print(t.Output())
	for _, finding := range verdict.Findings {
		finding.Report(t)
	}
	if _, err := b.Await(t.Context(), "split to print all weights",
		func() bool { return seen.hasWeights(c.Requested) }); err != nil {
		t.Errorf("%v: it printed %s, requested were %v", err, seen, c.Requested)
	}
	checkDoctor(t.Context(), t, b, "afterwards")
}
