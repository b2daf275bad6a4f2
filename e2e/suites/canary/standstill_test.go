package canary

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
)

// hold is how long the Rollout has to stay where it is while a proxy stands
// still: the controller asks again, after 10 s, whether the weight is in force.
const hold = 13 * time.Second

// One of two proxies stops to run, at 20 %, and the Rollout is promoted to 50 %.
// The other proxy takes the weight and serves on. The status says that one of
// two has it, the router doesn't verify the weight, and the Rollout stays where
// it is. When the proxy runs again, all of that heals by itself.
//
// The load goes to the other proxy only: whoever is connected to a process that
// stands still waits.
func standstill(t *testing.T, b *bed.Bed, from, to string) {
	t.Helper()
	still, running := b.Proxies[0], b.Proxies[1]
	c := bed.Canary{
		From: from, To: to, Left: from, Weights: []int{20, 50}, Asked: []int{0, 20, 50, 0}, Load: []bed.Proxy{running},
	}
	play(t, b, c, func(ctx context.Context, trial *bed.Trial) error {
		if err := trial.Through(ctx, 20); err != nil {
			return err
		}
		if err := stopped(ctx, t, b, trial, still, running); err != nil {
			return err
		}
		return b.Argo(ctx, "abort", bed.App)
	})
}

func stopped(ctx context.Context, t *testing.T, b *bed.Bed, trial *bed.Trial, still, running bed.Proxy) error {
	t.Helper()
	envoy, err := processOf(b, still)
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
	if err := b.Argo(ctx, "promote", bed.App); err != nil {
		return err
	}
	if err := unverified(ctx, b, running); err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "while %s stands still: %s\n", still.Name, b.Record.Now())
	if err := trial.Measure(ctx, 50); err != nil {
		return err
	}
	if err := holds(ctx, b, running); err != nil {
		return err
	}
	continued := time.Now()
	if err := envoy.Signal(unix.SIGCONT); err != nil {
		return err
	}
	healed, err := b.Await(ctx, "the proxy that runs again to take the weight", within, func() bool {
		return b.Record.Now().Has(50, len(b.Proxies))
	})
	if err != nil {
		return err
	}
	if err := b.AtPause(ctx, 3, 50, within); err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "%s runs again: weight in force after %.2f s, the Rollout went on after %.1f s\n", still.Name,
		healed.Sub(continued).Seconds(), time.Since(continued).Seconds())
	return nil
}

// processOf finds the Envoy of a proxy.
func processOf(b *bed.Bed, p bed.Proxy) (inside.Process, error) {
	all, err := b.Inside.Find("envoy")
	if err != nil {
		return inside.Process{}, err
	}
	for _, process := range all {
		if pod, err := process.Pod(); err == nil && pod == p.Name {
			return process, nil
		}
	}
	return inside.Process{}, fmt.Errorf("%w: the Envoy of %s", inside.ErrNoProcess, p.Name)
}

// unverified waits until the weight of 50 is written and taken by the running
// proxy, and the controller was told that it is not verified.
func unverified(ctx context.Context, b *bed.Bed, running bed.Proxy) error {
	_, err := b.Await(ctx, "weight 50, taken by one of two proxies and not verified", within, func() bool { return waits(b.Record.Now(), running) })
	return err
}

// waits says whether the Rollout stays at the step that sets the weight 50,
// because one of two proxies does not have it.
func waits(state bed.State, running bed.Proxy) bool {
	index, weights, report := state.Rollout.Status.CurrentStepIndex, state.Rollout.Status.Canary.Weights, state.Object.Status.DataPlane
	return state.Weight() == 50 && state.Envoys[running.Name] == 50 &&
		report != nil && report.Proxies.Ready == 2 && report.Proxies.Acked == 1 && !report.Effective &&
		index != nil && *index == 2 && weights != nil && weights.Canary.Weight == 50 && weights.Verified != nil && !*weights.Verified
}

// holds looks all the time, for as long as hold, that the Rollout waits.
func holds(ctx context.Context, b *bed.Bed, running bed.Proxy) error {
	ctx, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			if state := b.Record.Now(); !waits(state, running) {
				return fmt.Errorf("the Rollout did not wait for the proxy that stands still: %s", state)
			}
		}
	}
}
