package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// second returns a moment, in seconds since the start of a round.
func second(n float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// Each broken invariant is reported with its kind. Long times alone are no problem.
func TestProblems(t *testing.T) {
	failed := trace.Tally{Sent: 500, Failed: 1, Reasons: map[string]int{"HTTP status 503": 1}}
	slow := times{down: time.Hour, idle: time.Hour, recovered: time.Hour, converged: time.Hour}
	tests := []struct {
		name    string
		outcome outcome
		want    []problem
	}{
		{"nothing", outcome{times: slow, tally: trace.Tally{Sent: 500, Lost: 100}}, nil},
		{"a failed request", outcome{tally: failed}, []problem{
			{invariant.FailedRequests, "1 requests failed that a living proxy could have served: map[HTTP status 503:1]"},
		}},
		{"an unexpected weight", outcome{unexpected: []string{"annotation: 0"}}, []problem{
			{invariant.UnexpectedWeights, "a weight that was not requested: annotation: 0"},
		}},
		{"a wrong split", outcome{splitErr: testbed.ErrSplit}, []problem{{invariant.Split, testbed.ErrSplit.Error()}}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.outcome.problems(), cmp.AllowUnexported(problem{})); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestTable(t *testing.T) {
	componentOf := func(name string) component {
		for _, p := range components() {
			if p.name == name {
				return p
			}
		}
		t.Fatalf("there is no part %s", name)
		return component{}
	}
	outcomes := []outcome{
		{
			component: componentOf("etcd"), tally: trace.Tally{Sent: 1000, Slowest: 500 * time.Millisecond},
			times: times{down: time.Second, recovered: 50 * time.Millisecond, converged: 100 * time.Millisecond},
		},
		{
			component: componentOf("envoy"), stalled: 200 * time.Millisecond, times: times{down: 3 * time.Second},
			tally: trace.Tally{Sent: 900, Lost: 90},
		},
		{
			component: componentOf("etcd"),
			times:     times{down: 2 * time.Second, idle: time.Second, recovered: 2 * time.Second, converged: 3 * time.Second},
			tally:     trace.Tally{Sent: 1000, Failed: 2}, unexpected: []string{"x"}, splitErr: errors.New("x"),
		},
	}
	var drawn strings.Builder
	if err := table(&drawn, summarize(outcomes)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(drawn.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"killed rounds requests failed lost with it slowest unexpected weights wrong splits machine stalled " +
			"down p50 p90 max limit idle p50 p90 max recovered p50 p90 max limit converged p50 p90 max limit",
		"envoy 1 900 0 90 0.00 s 0 0 0.20 s 3.00 s 3.00 s 3.00 s 15.00 s 0.00 s 0.00 s 0.00 s " +
			"0.00 s 0.00 s 0.00 s 1.00 s 0.00 s 0.00 s 0.00 s 1.00 s",
		"etcd 2 2 000 2 0 0.50 s 1 1 0.00 s 1.00 s 2.00 s 2.00 s 10.00 s 0.00 s 1.00 s 1.00 s " +
			"0.05 s 2.00 s 2.00 s 1.00 s 0.10 s 3.00 s 3.00 s 1.00 s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
