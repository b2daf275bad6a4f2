package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// Whatever must not be is found, and named.
func TestProblems(t *testing.T) {
	tests := []struct {
		name    string
		outcome outcome
		want    string
	}{
		{"nothing", outcome{converged: limit, tally: trace.Tally{Sent: 500, Lost: 100}, down: time.Hour, idle: time.Hour}, ""},
		{"a failed request", outcome{tally: trace.Tally{Sent: 500, Failed: 1, Reasons: map[string]int{"HTTP status 503": 1}}}, "1 requests failed that a living proxy"},
		{"a strange weight", outcome{strays: []string{"annotation: 0"}}, "a weight that nobody asked for: annotation: 0"},
		{"too slow", outcome{converged: limit + time.Millisecond}, "in force only 2.0 s after"},
		{"a wrong split", outcome{wrong: bed.ErrSplit}, bed.ErrSplit.Error()},
		{"a machine that is too slow", outcome{overload: bed.ErrOverload}, bed.ErrOverload.Error()},
	}
	for _, tt := range tests {
		got := strings.Join(tt.outcome.problems(), "\n")
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: problems %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A machine that is too busy excuses what a living proxy could have served and
// what came late, but no weight that nobody asked for; and nothing is void that
// has passed.
func TestVoid(t *testing.T) {
	failed := trace.Tally{Sent: 500, Failed: 1}
	tests := []struct {
		name    string
		outcome outcome
		want    bool
	}{
		{"a failure on a quiet machine", outcome{tally: failed, lag: busy}, false},
		{"a failure on a busy one", outcome{tally: failed, lag: busy + 1}, true},
		{"too slow on a busy one", outcome{converged: limit + 1, lag: busy + 1}, true},
		{"an overload", outcome{overload: bed.ErrOverload}, true},
		{"passed on a busy one", outcome{converged: limit, lag: busy + 1}, false},
		{"a strange weight on a busy one", outcome{tally: failed, strays: []string{"x"}, lag: busy + 1}, false},
	}
	for _, tt := range tests {
		if got := tt.outcome.void(); got != tt.want {
			t.Errorf("%s: void %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	of := func(name string) part {
		for _, p := range parts() {
			if p.name == name {
				return p
			}
		}
		t.Fatalf("there is no part %s", name)
		return part{}
	}
	outcomes := []outcome{
		{part: of("etcd"), down: time.Second, converged: 100 * time.Millisecond, tally: trace.Tally{Sent: 1000}},
		{part: of("etcd"), down: time.Minute, tally: trace.Tally{Sent: 1000, Failed: 500}, lag: time.Second},
		{part: of("envoy"), down: 3 * time.Second, tally: trace.Tally{Sent: 900, Lost: 90}},
		{part: of("etcd"), down: 2 * time.Second, idle: time.Second, converged: 3 * time.Second, tally: trace.Tally{Sent: 1000, Failed: 2}, strays: []string{"x"}, wrong: errors.New("x")},
	}
	var drawn strings.Builder
	if err := table(&drawn, sumUp(outcomes)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(drawn.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"killed rounds void requests failed lost with it strange weights wrong splits down p50 max idle p50 max converged p50 max",
		"envoy 1 0 900 0 90 0 0 3.0 s 3.0 s 0.0 s 0.0 s 0.0 s 0.0 s",
		"etcd 2 1 2 000 2 0 1 1 1.0 s 2.0 s 0.0 s 1.0 s 0.1 s 3.0 s",
		"limit 0 0 0 2.0 s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
