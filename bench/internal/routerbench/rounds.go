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
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
)

// The kinds of calls.
const (
	setWeight = "SetWeight"
	bareWrite = "bare write"
	resync    = "idle resync"
	noResync  = "the same, no-op plugin"
	killed    = "kill -9 until recovery"
	noKilled  = "kill -9 until recovery, no-op plugin"
)

// kinds are the kinds of calls in the order of the table.
func kinds() []string { return []string{setWeight, bareWrite, resync, noResync, killed, noKilled} }

// hash is the pod template hash of every Rollout.
const hash = "6b7c9d8f5"

// minResyncs is the minimum number of idle resyncs per round: they are short, and fewer of them would measure how fast
// the machine wakes up.
const minResyncs = 400

// preparers is the number of objects that are prepared in parallel for a measurement.
const preparers = 8

// measurement is a running cluster with the measured plugins.
type measurement struct {
	Benchmark

	clients      Clients
	router, noop *pluginRunner
}

// rounds measures every kind in every case, repeats times, in sequence.
func (m *measurement) rounds(ctx context.Context, repeats int, progress io.Writer) (report, error) {
	results := report{Plugin: m.Plugin, Workload: m.Subject.Workload(), Repeats: repeats}
	for repeat := range repeats + 1 {
		for _, testCase := range m.Subject.Cases() {
			samples, err := m.begin(testCase, repeat).run(ctx)
			if err != nil {
				return report{}, fmt.Errorf("round %d, %s: %w", repeat, testCase.Name, err)
			}
			if repeat > 0 { // the first one warms up
				results.add(testCase, samples)
			}
		}
		fmt.Fprintf(progress, "round %d of %d done\n", repeat, repeats)
	}
	results.summarise(m.Subject.Cases())
	var err error
	if results.Footprint, err = m.footprint(ctx); err != nil {
		return report{}, fmt.Errorf("start and memory of the plugin: %w", err)
	}
	results.Limits = append(results.Limits, results.Footprint.limits()...)
	return results, nil
}

// round is one round of all kinds over the same Rollouts.
type round struct {
	*measurement

	of       Case
	numbers  []int // of the Rollouts
	rollouts []*v1alpha1.Rollout
	weight   uint32 // the weight that the router sets
}

// begin chooses the Rollouts of a round and their weight.
func (m *measurement) begin(testCase Case, repeat int) *round {
	r := &round{measurement: m, of: testCase, weight: uint32(repeat%80 + 1)} //nolint:gosec // 1 to 80
	for call := range testCase.Calls {
		number := (repeat*testCase.Calls + call) % testCase.Rollouts
		r.numbers = append(r.numbers, number)
		r.rollouts = append(r.rollouts, m.Subject.Rollout(testCase, number))
	}
	return r
}

// sample contains the results of the calls of one kind in a round.
type sample struct {
	stopwatch.Sample

	reads, writes int // requests for the router's resource that the API server received meanwhile
}

// part contains the calls of one kind for some of the round's Rollouts.
type part struct {
	kind     string
	from, to int // its Rollouts
	call     func(n int) error
}

// run measures each kind.
func (r *round) run(ctx context.Context) (map[string]sample, error) {
	samples := map[string]sample{}
	if err := r.writes(ctx, samples); err != nil {
		return nil, err
	}
	if err := errors.Join(r.setAll(0), r.Subject.ReportStatus(ctx, r.of, r.numbers)); err != nil {
		return nil, err
	}
	err := r.resyncs(ctx, samples)
	if err == nil && r.of.Kill {
		err = r.kills(ctx, samples)
	}
	return samples, err
}

// resyncs measures calls that change nothing, several times per Rollout if there are few. As with the writes, the no-op
// plugin's calls are between the two halves of the router's.
func (r *round) resyncs(ctx context.Context, samples map[string]sample) error {
	all := max(r.of.Calls, minResyncs)
	half := all / 2
	ours := func(n int) error { return reconcile(r.router, r.rollouts[n%r.of.Calls]) }
	base := func(n int) error { return reconcile(r.noop, r.rollouts[n%r.of.Calls]) }
	for _, p := range []part{
		{resync, 0, half, ours}, {noResync, 0, half, base}, {noResync, half, all, base}, {resync, half, all, ours},
	} {
		if err := r.count(ctx, samples, p); err != nil {
			return err
		}
	}
	return nil
}

// writes measures calls that write. The bare writes are between the SetWeights of the two halves of the Rollouts, and
// the bare client's objects are read before each part. So all of them find the API server in the same state.
func (r *round) writes(ctx context.Context, samples map[string]sample) error {
	if err := r.setAll(r.weight + 20); err != nil {
		return err
	}
	half, all := r.of.Calls/2, r.of.Calls
	change := func(n int) error { return r.set(n, r.weight) }
	for _, p := range []part{
		{setWeight, 0, half, change}, {bareWrite, 0, half, nil}, {bareWrite, half, all, nil}, {setWeight, half, all, change},
	} {
		write, err := r.Subject.BareWrites(ctx, r.of, r.weight+10)
		if err != nil {
			return err
		}
		if p.kind == bareWrite {
			p.call = func(n int) error { return write(r.numbers[n]) }
		}
		if err := r.count(ctx, samples, p); err != nil {
			return err
		}
	}
	return nil
}

// setAll sets a weight for every Rollout of the round, unmeasured.
func (r *round) setAll(weight uint32) error {
	callers := max(1, preparers/r.of.Objects)
	_, err := stopwatch.Calls(callers, r.of.Calls, func(n int) error { return r.set(n, weight) })
	return err
}

// count makes the calls of a part, and adds their times and requests to samples.
func (r *round) count(ctx context.Context, samples map[string]sample, p part) error {
	if err := stopwatch.Pause(ctx); err != nil {
		return err
	}
	before, err := apiserver.CountRequests(ctx, r.clients.Admin, r.Resource)
	if err != nil {
		return err
	}
	measured, err := stopwatch.Calls(r.of.Workers, p.to-p.from, func(n int) error { return p.call(p.from + n) })
	if err != nil {
		return fmt.Errorf("%s: %w", p.kind, err)
	}
	after, err := apiserver.CountRequests(ctx, r.clients.Admin, r.Resource)
	if err != nil {
		return err
	}
	into := samples[p.kind]
	into.Took, into.Whole = append(into.Took, measured.Took...), into.Whole+measured.Whole
	into.reads, into.writes = into.reads+after.Reads()-before.Reads(), into.writes+after.Writes()-before.Writes()
	samples[p.kind] = into
	return nil
}

// set sets the weight of a Rollout by the router.
func (r *round) set(n int, weight uint32) error {
	plugin, err := r.router.plugin()
	if err != nil {
		return err
	}
	return set(plugin, r.rollouts[n], weight)
}

// set is SetWeight.
func set(plugin rpc.TrafficRouterPlugin, rollout *v1alpha1.Rollout, weight uint32) error {
	return pluginprocess.AsError(plugin.SetWeight(rollout, int32(weight), nil)) //nolint:gosec // up to 100
}

// errNotVerified is returned if an idle Rollout is not in the expected state.
var errNotVerified = errors.New("weight 0 is not verified")

// reconcile makes the controller's calls for a promoted Rollout (argo-rollouts v1.10.1 rollout/trafficrouting.go,
// reconcileTrafficRouting).
func reconcile(runner *pluginRunner, rollout *v1alpha1.Rollout) error {
	plugin, err := runner.plugin()
	if err != nil {
		return err
	}
	err = errors.Join(
		pluginprocess.AsError(plugin.RemoveManagedRoutes(rollout)),
		pluginprocess.AsError(plugin.UpdateHash(rollout, hash, hash, nil)),
		set(plugin, rollout, 0),
	)
	verified, answer := plugin.VerifyWeight(rollout, 0, nil)
	if verified != rolloutstypes.Verified {
		err = errors.Join(err, pluginprocess.AsError(answer), fmt.Errorf("rollout %s: %w", rollout.Name, errNotVerified))
	}
	return err
}
