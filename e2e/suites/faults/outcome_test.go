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

// second is a moment, in seconds since the start of a round.
func second(n float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// between is a span from one second to another.
func between(from, to float64) trace.Span { return trace.Span{From: second(from), To: second(to)} }

// failed are requests that failed for a reason, unanswered ones that had no answer
// in time.
func failed(reason string) trace.Tally {
	return trace.Tally{Sent: 500, Failed: 1, Reasons: map[string]int{reason: 1}}
}

func unanswered(spans ...trace.Span) trace.Tally {
	tally := failed("no answer within 5s")
	tally.Failed, tally.Unanswered = len(spans), spans
	return tally
}

// Whatever must not be is found, and named.
func TestProblems(t *testing.T) {
	inTime := times{down: time.Second, idle: time.Hour, recovered: recoveredLimit, converged: convergedLimit}
	patient := part{down: time.Second}
	tests := []struct {
		name    string
		outcome outcome
		want    string
	}{
		{"nothing", outcome{part: patient, times: inTime, tally: trace.Tally{Sent: 500, Lost: 100}}, ""},
		{"a failed request", outcome{tally: failed("HTTP status 503")}, "1 requests failed that a living proxy"},
		{"an unanswered one", outcome{tally: unanswered(between(1, 6))}, "1 requests had no answer from a living proxy"},
		{"a strange weight", outcome{strays: []string{"annotation: 0"}}, "a weight that nobody asked for: annotation: 0"},
		{"too long away", outcome{part: patient, times: times{down: time.Second + 1}}, "away for 1.00 s"},
		{"too slow a router", outcome{times: times{recovered: recoveredLimit + 1}}, "the router took 1.00 s to verify"},
		{"too slow", outcome{times: times{converged: convergedLimit + 1}}, "in force only 1.00 s after"},
		{"a wrong split", outcome{wrong: bed.ErrSplit}, bed.ErrSplit.Error()},
	}
	for _, tt := range tests {
		got := tt.outcome.describe()
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: problems %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A machine that is too busy explains time, where it was too busy then, and
// nothing else: no answer that came, no connection that was refused, no split and
// no weight. Nothing is void that has passed.
func TestVoid(t *testing.T) {
	late := []trace.Span{between(2, 3)}
	slow := times{converged: convergedLimit + 1, convergence: between(1, 4)}
	mute := func(from, to float64) times { return times{recovered: recoveredLimit + 1, recovery: between(from, to)} }
	away := func(back float64) times { return times{down: 3 * time.Second, recovery: between(back, back+1)} }
	tests := []struct {
		name    string
		outcome outcome
		want    bool
	}{
		{"an HTTP status", outcome{tally: failed("HTTP status 503"), late: late}, false},
		{"a refused connection", outcome{tally: failed("connection refused"), late: late}, false},
		{"a lost pinned connection", outcome{tally: failed("pinned connection lost"), late: late}, false},
		{"a wrong split", outcome{wrong: bed.ErrSplit, late: late}, false},
		{"a strange weight", outcome{strays: []string{"x"}, late: late}, false},
		{"no answer on a quiet machine", outcome{tally: unanswered(between(2, 7))}, false},
		{"no answer while it was busy", outcome{tally: unanswered(between(2, 7)), late: late}, true},
		{"no answer, then and later", outcome{tally: unanswered(between(2, 7), between(4, 9)), late: late}, false},
		{"slow on a quiet machine", outcome{times: slow}, false},
		{"slow while it was busy", outcome{times: slow, late: late}, true},
		{"slow before it was busy", outcome{times: slow, late: []trace.Span{between(5, 6)}}, false},
		{"slow while it was busy, and a wrong split", outcome{times: slow, wrong: bed.ErrSplit, late: late}, false},
		{"a slow router while it was busy", outcome{times: mute(1, 4), late: late}, true},
		{"a slow router before it was busy", outcome{times: mute(0, 2), late: late}, false},
		{"away for long while it was busy", outcome{times: away(4), late: late}, true},
		{"away for long before it was busy", outcome{times: away(2), late: late}, false},
		{"passed while it was busy", outcome{times: times{convergence: between(1, 4)}, late: late}, false},
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
	minute := times{down: time.Minute, recovery: between(0, 1)}
	outcomes := []outcome{
		{
			part: of("etcd"), tally: trace.Tally{Sent: 1000, Slowest: 500 * time.Millisecond},
			times: times{down: time.Second, recovered: 50 * time.Millisecond, converged: 100 * time.Millisecond},
		},
		{part: of("etcd"), times: minute, tally: unanswered(between(1, 6)), late: []trace.Span{between(-60, 9)}},
		{part: of("envoy"), times: times{down: 3 * time.Second}, tally: trace.Tally{Sent: 900, Lost: 90}},
		{
			part:  of("etcd"),
			times: times{down: 2 * time.Second, idle: time.Second, recovered: 2 * time.Second, converged: 3 * time.Second},
			tally: trace.Tally{Sent: 1000, Failed: 2}, strays: []string{"x"}, wrong: errors.New("x"),
		},
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
		"killed rounds void requests failed lost with it slowest strange weights wrong splits " +
			"down p50 max idle p50 max recovered p50 max converged p50 max",
		"envoy 1 0 900 0 90 0.00 s 0 0 3.00 s 3.00 s 0.00 s 0.00 s 0.00 s 0.00 s 0.00 s 0.00 s",
		"etcd 2 1 2 000 2 0 0.50 s 1 1 1.00 s 2.00 s 0.00 s 1.00 s 0.05 s 2.00 s 0.10 s 3.00 s",
		"limit 0 5.00 s 0 0 1.00 s 1.00 s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
