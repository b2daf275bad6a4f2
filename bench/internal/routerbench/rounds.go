package routerbench

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/pluginprocess"
)

// The kinds of calls, in the order of a round. What is compared stands side by side.
const (
	setWeight = "SetWeight"
	bareWrite = "bare write"
	resync    = "idle resync"
	noResync  = "the same, no-op plugin"
)

// kinds are the kinds of calls in the order of a round.
func kinds() []string { return []string{setWeight, bareWrite, resync, noResync} }

// hash is the pod template hash of every Rollout.
const hash = "6b7c9d8f5"

// preparers is how many objects are prepared for a measurement at a time.
const preparers = 8

// measurement is a running cluster with the plugins that are measured.
type measurement struct {
	Benchmark

	clients         Clients
	router, nothing rpc.TrafficRouterPlugin
}

// rounds measures every kind in every case, repeats times, one after the other.
func (m *measurement) rounds(ctx context.Context, repeats int, progress io.Writer) (report, error) {
	results := report{Workload: m.Subject.Workload(), Repeats: repeats}
	for repeat := range repeats + 1 {
		for _, of := range m.Subject.Cases() {
			samples, err := m.begin(of, repeat).run(ctx)
			if err != nil {
				return report{}, fmt.Errorf("round %d, %s: %w", repeat, of.Name, err)
			}
			if repeat > 0 { // the first one warms up
				results.add(of, samples)
			}
		}
		fmt.Fprintf(progress, "round %d of %d done\n", repeat, repeats)
	}
	results.summarise(m.Subject.Cases(), m.MinResync)
	return results, nil
}

// round is one round of all kinds over the same Rollouts, which are at weight 0 before and after it.
type round struct {
	*measurement

	of       Case
	numbers  []int // of the Rollouts
	rollouts []*v1alpha1.Rollout
	weight   uint32 // of the router; the bare client's is another one
}

// begin chooses the Rollouts of a round and their weight.
func (m *measurement) begin(of Case, repeat int) *round {
	r := &round{measurement: m, of: of, weight: uint32(repeat%80 + 1)} //nolint:gosec // 1 to 80
	for call := range of.Calls {
		number := (repeat*of.Calls + call) % of.Rollouts
		r.numbers = append(r.numbers, number)
		r.rollouts = append(r.rollouts, m.Subject.Rollout(of, number))
	}
	return r
}

// sample is what the calls of one kind took in a round.
type sample struct {
	stopwatch.Sample

	reads, writes int // requests for the router's resource that the API server answered meanwhile
}

// run measures each kind in turn.
func (r *round) run(ctx context.Context) (map[string]sample, error) {
	samples := map[string]sample{}
	for _, kind := range kinds() {
		call, err := r.prepare(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("before %s: %w", kind, err)
		}
		if err := stopwatch.Settle(ctx); err != nil {
			return nil, err
		}
		if samples[kind], err = r.counted(ctx, call); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return samples, nil
}

// prepare does what has to be done before the calls of a kind, and returns the call for the n-th Rollout of the round.
func (r *round) prepare(ctx context.Context, kind string) (call func(n int) error, err error) {
	switch kind {
	case setWeight:
		return func(n int) error { return set(r.router, r.rollouts[n], r.weight) }, nil
	case bareWrite:
		write, err := r.Subject.BareWrites(ctx, r.of, r.weight+10)
		return func(n int) error { return write(r.numbers[n]) }, err
	case resync:
		_, err := stopwatch.Calls(preparers, r.of.Calls, func(n int) error { return set(r.router, r.rollouts[n], 0) })
		if err == nil {
			err = r.Subject.Confirm(ctx, r.of, r.numbers)
		}
		return func(n int) error { return reconcile(r.router, r.rollouts[n]) }, err
	default:
		return func(n int) error { return reconcile(r.nothing, r.rollouts[n]) }, nil
	}
}

// set is SetWeight.
func set(asked rpc.TrafficRouterPlugin, rollout *v1alpha1.Rollout, weight uint32) error {
	return pluginprocess.Failure(asked.SetWeight(rollout, int32(weight), nil)) //nolint:gosec // up to 100
}

// errNotVerified says that an idle Rollout is not as it should be.
var errNotVerified = errors.New("weight 0 is not verified")

// reconcile makes the calls of the controller for a promoted Rollout (argo-rollouts v1.10.1 rollout/trafficrouting.go,
// reconcileTrafficRouting).
func reconcile(asked rpc.TrafficRouterPlugin, rollout *v1alpha1.Rollout) error {
	err := errors.Join(
		pluginprocess.Failure(asked.RemoveManagedRoutes(rollout)),
		pluginprocess.Failure(asked.UpdateHash(rollout, hash, hash, nil)),
		set(asked, rollout, 0),
	)
	verified, answer := asked.VerifyWeight(rollout, 0, nil)
	if verified != rolloutstypes.Verified {
		err = errors.Join(err, pluginprocess.Failure(answer), fmt.Errorf("rollout %s: %w", rollout.Name, errNotVerified))
	}
	return err
}

// counted makes one call for each Rollout of the round, and counts the requests.
func (r *round) counted(ctx context.Context, call func(n int) error) (sample, error) {
	before, err := controlplane.CountRequests(ctx, r.clients.Admin, r.Resource)
	if err != nil {
		return sample{}, err
	}
	measured, err := stopwatch.Calls(r.of.Workers, r.of.Calls, call)
	if err != nil {
		return sample{}, err
	}
	after, err := controlplane.CountRequests(ctx, r.clients.Admin, r.Resource)
	return sample{
		Sample: measured, reads: after.Reads() - before.Reads(), writes: after.Writes() - before.Writes(),
	}, err
}
