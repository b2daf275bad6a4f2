package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// standstill pauses one of two proxies at 20 % and promotes the Rollout to 50 %. The other proxy ACKs the weight and
// continues to serve. The status reports one of two ACKs, the router does not verify the weight, and the Rollout stays
// at its step. When the proxy runs again, all of that recovers automatically.
//
// Only the other proxy gets load: a client of a paused process would wait.
func standstill(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	still, running := b.Proxies[0], b.Proxies[1]
	c := testbed.Canary{
		From: from, To: to, Final: from, Weights: []int{20, 50}, Requested: []int{0, 20, 50, 0},
		Load: []testbed.Proxy{running},
	}
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := trial.RunSteps(ctx, 20); err != nil {
			return err
		}
		if err := stopProxy(ctx, t, b, trial, still, running); err != nil {
			return err
		}
		return b.Argo(ctx, "abort", testbed.App)
	})
}

func stopProxy(ctx context.Context, t *testing.T, b *testbed.Testbed, trial *testbed.Trial, still,
	running testbed.Proxy,
) error {
	t.Helper()
	envoy, err := b.Inside.FindInPod("envoy", still.Name)
	if err != nil {
		return err
	}
	if err := envoy.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	defer func() {
		if err := envoy.Signal(unix.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	promoted := time.Now()
	if err := b.Argo(ctx, "promote", testbed.App); err != nil {
		return err
	}
	if err := awaitUnverified(ctx, b, running); err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "while %s is paused: %s\n", still.Name, b.Record.Now())
	if err := trial.Measure(ctx, 50); err != nil {
		return err
	}
	if err := staysUnverified(ctx, t, b, promoted); err != nil {
		return err
	}
	continued := time.Now()
	if err := envoy.Signal(unix.SIGCONT); err != nil {
		return err
	}
	healed, err := b.Await(ctx, "the proxy that runs again to take the weight", func() bool {
		return b.Record.Now().HasWeight(50, len(b.Proxies))
	})
	if err != nil {
		return err
	}
	if err := b.AwaitPause(ctx, 3, 50); err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "%s runs again: weight active after %.2f s, the Rollout went on after %.1f s\n", still.Name,
		healed.Sub(continued).Seconds(), time.Since(continued).Seconds())
	return nil
}

// awaitUnverified waits until the weight of 50 is in the annotation, the running proxy has ACKed it, and the router has
// reported it as unverified.
func awaitUnverified(ctx context.Context, b *testbed.Testbed, running testbed.Proxy) error {
	_, err := b.Await(ctx, "weight 50, ACKed by one of two proxies and not verified",
		func() bool { return isWaiting(b.Record.Now(), running) })
	return err
}

// isWaiting reports whether the Rollout stays at the step with weight 50 because one of two proxies does not have it.
func isWaiting(state testbed.State, running testbed.Proxy) bool {
	status, report := state.Rollout.Status, state.Object.Status.DataPlane
	index, weights := status.CurrentStepIndex, status.Canary.Weights
	return state.Weight() == 50 && state.Envoys[running.Name] == 50 &&
		report != nil && report.Proxies.Ready == 2 && report.Proxies.Acked == 1 && !report.Effective &&
		index != nil && *index == 2 && weights != nil && weights.Canary.Weight == 50 &&
		weights.Verified != nil && !*weights.Verified
}

// staysUnverified waits until the controller has called its router again for the weight that one of two proxies lacks.
// Until then the router must not verify the weight, no status may report it as ACKed by all proxies, and the Rollout
// must not continue.
func staysUnverified(ctx context.Context, t *testing.T, b *testbed.Testbed, promoted time.Time) error {
	t.Helper()
	_, version := b.Record.StepReached(2)
	since := time.Now()
	verified := false
	var problem error
	_, err := b.Await(ctx, "the controller to ask its router again", func() bool {
		var syncs []trace.Sync
		if syncs, problem = b.Syncs(promoted); problem != nil {
			return true
		}
		verified = slices.ContainsFunc(syncs,
			func(s trace.Sync) bool { return s.Version >= version && s.Answer == trace.Verified })
		again := slices.ContainsFunc(syncs,
			func(s trace.Sync) bool { return s.Began.After(since) && s.Answer == trace.Unverified })
		return verified || again
	})
	if err := errors.Join(err, problem); err != nil {
		return err
	}
	if b.Record.ACKed(promoted, 50) {
		invariant.Broken(t, invariant.EarlyACK, "a status reports that all proxies have 50 while one is paused: %s",
			b.Record.Now())
	}
	taken, _ := b.Record.StepReached(3)
	if verified || !taken.IsZero() {
		invariant.Broken(t, invariant.EarlyACK,
			"the Rollout did not wait for the paused proxy: %s", b.Record.Now())
	}
	return nil
}
