package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/pluginprocess"
)

// The kinds of calls, in the order of a round. Each call is about one Rollout and all of its routes.
const (
	bareGetPut = "bare GET + PUT"
	setChanged = "SetWeight, changed"
	setSame    = "SetWeight, unchanged"
	verify     = "VerifyWeight"
)

// kinds are the kinds of calls in the order of a round.
func kinds() []string { return []string{bareGetPut, setChanged, setSame, verify} }

// atOnce is how many of a Rollout's routes the router reads or writes at a time.
const atOnce = 8

// sample is what the calls of one kind took in a round.
type sample struct {
	stopwatch.Sample

	reads, writes int // requests for HTTPRoutes that the API server answered meanwhile
}

// rounds measures every kind with every number of routes, chosen.repeats times, one after the other.
func rounds(ctx context.Context, w *world, asked rpc.TrafficRouterPlugin, chosen options, progress io.Writer) (report, error) {
	results := report{Rollouts: chosen.rollouts, Repeats: chosen.repeats}
	for repeat := range chosen.repeats + 1 {
		for _, size := range sizes() {
			// Every round changes every weight; bare client and router differ by 10.
			samples, err := round{world: w, asked: asked, size: size, rollouts: chosen.rollouts, weight: int32(repeat%80 + 1)}.run(ctx)
			if err != nil {
				return report{}, fmt.Errorf("repeat %d with %d routes: %w", repeat, size, err)
			}
			if repeat > 0 { // the first one warms up
				results.add(size, samples)
			}
		}
		fmt.Fprintf(progress, "repeat %d of %d done\n", repeat, chosen.repeats)
	}
	results.summarise()
	return results, nil
}

// round is one round of all kinds over the Rollouts of one size.
type round struct {
	world    *world
	asked    rpc.TrafficRouterPlugin
	size     int
	rollouts int
	weight   int32
}

// run measures each kind in turn.
func (r round) run(ctx context.Context) (map[string]sample, error) {
	subjects := make([]*v1alpha1.Rollout, r.rollouts)
	for n := range subjects {
		var err error
		if subjects[n], err = rollout(r.size, n); err != nil {
			return nil, err
		}
	}
	setWeight := func(n int) error { return pluginprocess.Failure(r.asked.SetWeight(subjects[n], r.weight, nil)) }
	calls := map[string]func(n int) error{
		bareGetPut: func(n int) error {
			_, err := stopwatch.Calls(min(atOnce, r.size), r.size, func(i int) error { return r.world.getPut(ctx, r.size, n, i, int64(r.weight)+10) })
			return err
		},
		setChanged: setWeight,
		setSame:    setWeight,
		verify: func(n int) error {
			verified, answer := r.asked.VerifyWeight(subjects[n], r.weight, nil)
			if verified != rolloutstypes.Verified {
				return errors.Join(pluginprocess.Failure(answer), fmt.Errorf("weight %d of Rollout %s is not verified", r.weight, subjects[n].Name))
			}
			return nil
		},
	}
	samples := map[string]sample{}
	for _, kind := range kinds() {
		if kind == verify {
			if err := r.acceptAll(ctx); err != nil {
				return nil, err
			}
		}
		if err := stopwatch.Settle(ctx); err != nil {
			return nil, err
		}
		measured, err := r.counted(ctx, calls[kind])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		samples[kind] = measured
	}
	return samples, nil
}

// counted makes one call for each Rollout, one after the other, and counts the requests.
func (r round) counted(ctx context.Context, call func(n int) error) (sample, error) {
	before, err := r.world.served(ctx)
	if err != nil {
		return sample{}, err
	}
	measured, err := stopwatch.Calls(1, r.rollouts, call)
	if err != nil {
		return sample{}, err
	}
	after, err := r.world.served(ctx)
	return sample{Sample: measured, reads: after.Reads() - before.Reads(), writes: after.Writes() - before.Writes()}, err
}

// acceptAll does the Gateway's part for all routes of the round.
func (r round) acceptAll(ctx context.Context) error {
	_, err := stopwatch.Calls(atOnce, r.rollouts*r.size, func(n int) error { return r.world.accept(ctx, route(r.size, n/r.size, n%r.size)) })
	return err
}
