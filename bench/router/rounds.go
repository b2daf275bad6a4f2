package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/pluginprocess"
)

// The kinds of calls, in the order of a round.
const (
	barePatch  = "bare PATCH"
	setChanged = "SetWeight, changed"
	setSame    = "SetWeight, unchanged"
	verify     = "VerifyWeight"
	bareCall   = "Type (RPC alone)"
)

// kinds are the kinds of calls in the order of a round.
func kinds() []string { return []string{barePatch, setChanged, setSame, verify, bareCall} }

// workers are the numbers of concurrent callers: one, and as many as the controller has.
func workers() []int { return []int{1, 10} }

// rounds measures every kind with every number of workers, chosen.repeats times, one after the other.
func rounds(ctx context.Context, w *world, asked rpc.TrafficRouterPlugin, chosen options, progress io.Writer) (report, error) {
	results := report{Objects: chosen.objects, Calls: chosen.calls, Repeats: chosen.repeats}
	weight, first := uint32(0), 0
	for repeat := range chosen.repeats + 1 {
		for _, callers := range workers() {
			weight = weight%89 + 1 // every round changes every weight it touches; bare and router differ by 10
			round := round{world: w, asked: asked, first: first, weight: weight, callers: callers, options: chosen}
			first = (first + chosen.calls) % chosen.objects
			samples, err := round.run(ctx)
			if err != nil {
				return report{}, fmt.Errorf("repeat %d with %d workers: %w", repeat, callers, err)
			}
			if repeat > 0 { // the first one warms up
				results.add(callers, samples)
			}
		}
		fmt.Fprintf(progress, "repeat %d of %d done\n", repeat, chosen.repeats)
	}
	results.summarise()
	return results, nil
}

// round is one round of all kinds over the same objects.
type round struct {
	options

	world   *world
	asked   rpc.TrafficRouterPlugin
	first   int
	weight  uint32
	callers int
}

// sample is what one kind of call took in a round.
type sample struct {
	stopwatch.Sample

	reads, writes int // requests for HTTPScaledObjects that the API server answered meanwhile
}

// run measures each kind in turn.
func (r round) run(ctx context.Context) (map[string]sample, error) {
	calls := map[string]func(i int) error{
		barePatch:  func(i int) error { return r.world.barePatch(ctx, i, r.weight+10) },
		setChanged: func(i int) error { return pluginprocess.Failure(r.asked.SetWeight(rollout(i), int32(r.weight), nil)) }, //nolint:gosec // 1 to 89
		setSame:    func(i int) error { return pluginprocess.Failure(r.asked.SetWeight(rollout(i), int32(r.weight), nil)) }, //nolint:gosec // 1 to 89
		verify: func(i int) error {
			verified, answer := r.asked.VerifyWeight(rollout(i), int32(r.weight), nil) //nolint:gosec // 1 to 89
			if verified != rolloutstypes.Verified {
				return errors.Join(pluginprocess.Failure(answer), fmt.Errorf("weight %d of object %d is not verified", r.weight, i))
			}
			return nil
		},
		bareCall: func(int) error { _ = r.asked.Type(); return nil },
	}
	samples := map[string]sample{}
	for _, kind := range kinds() {
		if kind == verify {
			for n := range r.calls {
				if err := r.world.report(ctx, r.object(n), r.weight); err != nil {
					return nil, err
				}
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

// object is the object of the n-th call.
func (r round) object(n int) int { return (r.first + n) % r.objects }

// counted makes r.calls calls, each for an object of its own, with r.callers workers, and counts the requests.
func (r round) counted(ctx context.Context, call func(i int) error) (sample, error) {
	before, err := r.world.served(ctx)
	if err != nil {
		return sample{}, err
	}
	measured, err := stopwatch.Calls(r.callers, r.calls, func(n int) error { return call(r.object(n)) })
	if err != nil {
		return sample{}, err
	}
	after, err := r.world.served(ctx)
	return sample{Sample: measured, reads: after.Reads() - before.Reads(), writes: after.Writes() - before.Writes()}, err
}
