package mutants

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// mutant is an interceptor with one fault.
type mutant struct {
	name string
	// fault is the build tag: see internal/controlplane/fault.
	fault string
	// caughtBy is the check that must report it.
	caughtBy testbed.Check
	// also are checks that may report it, too: whether they do depends on when the canary's Pods end.
	also []testbed.Check
}

// mutants returns one mutant for each check.
func mutants() []mutant {
	return []mutant{
		{"endpoints of stable and canary swapped with correct weights", "swapped_endpoints", testbed.CheckSplit, nil},
		{"a cluster deleted before its route", "cluster_before_route", testbed.CheckFailedRequests, nil},
		{"an ACK reported before Envoy's", "early_ack", testbed.CheckEarlyACK, nil},
		{"300 ms of a wrong weight", "brief_wrong_weight", testbed.CheckUnexpectedWeights, nil},
		// The controller removes the canary's Pods 30 s after an abort. Then the proxies have a weight of 0 for a
		// moment, and the 5 % before it are no longer the last weight.
		{"an abort that leaves 5 %", "unfinished_abort", testbed.CheckEnd, []testbed.Check{testbed.CheckUnexpectedWeights}},
	}
}

// run is one canary on one interceptor.
type run struct {
	name, fault, binary string
	// want are the checks that must report something, also those that may. No other check may.
	want, also []testbed.Check
}

// All runs use one cluster. Each canary is aborted, so each run starts from the same state.
func TestMutants(t *testing.T) {
	runs := plan(t)
	proper := runs[0].binary
	b := testbed.Up(t, provider.Spec{Programs: map[string]string{interceptor: proper}})
	b.Deploy(t, nil)
	ran := 0
	for i, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			ran++
			if i > 0 {
				b.ReplaceProgram(t, interceptor, r.binary)
			}
			checkFindings(t, r, runCanary(t.Context(), b))
		})
	}
	if ran < len(runs) {
		t.Errorf("%d of %d runs took place", ran, len(runs))
		b.ReplaceProgram(t, interceptor, proper) // the next user of the cluster gets no mutant
	}
}

// plan builds the interceptors of all runs: every mutant, and the original before and after them.
func plan(t *testing.T) []run {
	t.Helper()
	proper := build(t, "")
	runs := []run{{name: "no fault, at first", binary: proper}}
	for _, m := range mutants() {
		runs = append(runs, run{m.name, m.fault, build(t, m.fault), []testbed.Check{m.caughtBy}, m.also})
	}
	return append(runs, run{name: "no fault, in the end", binary: proper})
}

// runCanary runs a canary with two weights and an abort.
func runCanary(ctx context.Context, b *testbed.Testbed) *testbed.Verdict {
	c := testbed.Canary{
		From: "blue", To: "yellow", Final: "blue", Weights: []int{20, 50}, Requested: []int{0, 20, 50, 0},
	}
	return b.RunCanary(ctx, c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := trial.RunSteps(ctx, 20, 50); err != nil {
			return err
		}
		return b.Argo(ctx, "abort", testbed.App)
	})
}

// checkFindings compares the failed checks with the expected ones.
func checkFindings(t *testing.T, r run, verdict *testbed.Verdict) {
	t.Helper()
	out := t.Output()
	verdict.Print(out)
	lines := []string{"nothing is found"}
	for i, finding := range verdict.Findings {
		lines = append(lines[:i], "found by "+finding.String())
	}
	fmt.Fprintln(out, strings.Join(lines, "\n"))
	failed := verdict.Failed()
	required := slices.DeleteFunc(slices.Clone(failed), func(c testbed.Check) bool { return slices.Contains(r.also, c) })
	if !slices.Equal(required, r.want) {
		t.Errorf("the checks that found something are %q, want %q, and perhaps %q", failed, r.want, r.also)
	}
}
