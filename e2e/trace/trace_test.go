package trace

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

func TestWeights(t *testing.T) {
	p := Pair{Stable: "s", Canary: "c"}
	texts := map[string]int{
		"":                              0,
		kube.WeightsText("s", "c", 0):   0,
		kube.WeightsText("s", "c", 7):   7,
		kube.WeightsText("c", "s", 7):   OtherSplit,
		kube.WeightsText("s", "x", 7):   OtherSplit,
		kube.WeightsText("s", "c", 100): 100,
		"- service: s\n  weight: 3\n- service: c\n  weight: 1": OtherSplit,
	}
	for text, want := range texts {
		if got := p.AnnotationWeight(text); got != want {
			t.Errorf("annotation %q: %d, want %d", text, got, want)
		}
	}
	shares := []struct {
		shares envoyadmin.Shares
		want   int
	}{
		{envoyadmin.Shares{"s": 1}, 0},
		{envoyadmin.Shares{"s": 0.93, "c": 0.07}, 7},
		{envoyadmin.Shares{"c": 1}, 100},
		{envoyadmin.Shares{"s": 0.5, "x": 0.5}, OtherSplit},
		{envoyadmin.Shares{"s": 0.995, "c": 0.005}, OtherSplit},
		{envoyadmin.Shares{"x": 1}, OtherSplit},
	}
	for _, tt := range shares {
		if got := p.EnvoyWeight(tt.shares); got != tt.want {
			t.Errorf("Envoy with %v: %d, want %d", tt.shares, got, tt.want)
		}
	}
}

func TestUnexpected(t *testing.T) {
	tests := []struct {
		name            string
		requested, seen []int
		want            []int
	}{
		{"as requested", []int{20, 50}, []int{20, 50}, nil},
		{"not there yet", []int{20, 50}, []int{20}, nil},
		{"one passed over", []int{0, 20, 50, 0}, []int{0, 50, 0}, nil},
		{"never requested", []int{20, 50}, []int{20, 0, 50}, []int{0}},
		{"back to an earlier one", []int{20, 50}, []int{20, 50, 20, 50}, []int{20}},
		{"ahead of its time", []int{0, 20, 50, 0}, []int{0, 50, 20, 0}, []int{20}},
		{"requested twice", []int{0, 50, 0}, []int{0, 50, 0}, nil},
		{"up again after the end", []int{0, 50, 0}, []int{0, 50, 0, 50}, []int{50}},
		{"unreadable", []int{0, 50}, []int{OtherSplit}, []int{OtherSplit}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Unexpected(tt.requested, tt.seen)); diff != "" {
			t.Errorf("%s: strays (-want +got):\n%s", tt.name, diff)
		}
	}
}

// An ACK is early only if a request that began after the report was read returned an earlier weight.
func TestEarlyACKs(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	run := func(weight, first, last int) Observation {
		return Observation{Weight: weight, At: at(first), Last: at(last)}
	}
	requested := []int{0, 20, 50, 0}
	reports := []Observation{run(0, 0, 0), run(20, 10, 10), run(50, 20, 20), run(0, 30, 30)}
	tests := []struct {
		name string
		runs []Observation
		want []EarlyACK
	}{
		{"runs it first", []Observation{run(0, 0, 8), run(20, 9, 18), run(50, 19, 28), run(0, 29, 40)}, nil},
		{"seen late, looked at in time", []Observation{run(0, 0, 10), run(20, 14, 14), run(50, 24, 24), run(0, 34, 40)}, nil},
		{"ahead of the report", []Observation{run(0, 0, 5), run(20, 6, 7), run(50, 8, 9), run(0, 11, 40)}, nil},
		{
			"runs it later",
			[]Observation{run(0, 0, 11), run(20, 12, 18), run(50, 19, 28), run(0, 29, 40)},
			[]EarlyACK{{Weight: 20, Reported: at(10), Polled: at(11)}},
		},
		{
			"never gives it up",
			[]Observation{run(0, 0, 8), run(20, 9, 18), run(50, 19, 40)},
			[]EarlyACK{{Weight: 0, Active: 50, Reported: at(30), Polled: at(40)}},
		},
		{
			"two behind",
			[]Observation{run(0, 0, 21)},
			[]EarlyACK{{Weight: 20, Reported: at(10), Polled: at(21)}, {Weight: 50, Reported: at(20), Polled: at(21)}},
		},
		{
			"a stray weight is another matter",
			[]Observation{run(0, 0, 8), run(80, 9, 11), run(20, 12, 18), run(50, 19, 28), run(0, 29, 40)},
			nil,
		},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, EarlyACKs(requested, reports, tt.runs)); diff != "" {
			t.Errorf("%s: premature reports (-want +got):\n%s", tt.name, diff)
		}
	}
	if early := EarlyACKs(requested, []Observation{run(OtherSplit, 10, 10)}, []Observation{run(0, 0, 20)}); early != nil {
		t.Errorf("premature %+v, but the report is about a stray weight", early)
	}
}

func TestSummarize(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	request := func(opened, due, end, status int, err error) load.Result {
		return load.Result{Opened: at(opened), Due: at(due), Latency: at(end).Sub(at(due)), Status: status, Err: err}
	}
	// The proxy is killed at 1000 and its successor accepts its first connection at 1500.
	outage := &Outage{Signaled: at(1000), Gone: at(1005)}
	good := []load.Result{
		request(0, 10, 12, 200, nil), request(1500, 1500, 1503, 200, nil),
		request(1700, 1700, 1702, 200, nil),
	}
	tests := []struct {
		name         string
		result       load.Result
		lost, failed int
	}{
		{"before the kill", request(0, 900, 950, 0, io.EOF), 0, 1},
		{"under way when it died", request(0, 990, 1001, 0, io.EOF), 1, 0},
		{"refused during the outage", request(1200, 1200, 1201, 0, io.EOF), 1, 0},
		{"no connection during the outage", load.Result{Due: at(1300), Latency: time.Millisecond, Err: io.EOF}, 1, 0},
		{"on an old connection later", request(500, 1900, 1901, 0, io.EOF), 1, 0},
		{"on a new connection of the new proxy", request(1600, 1600, 1601, 0, io.EOF), 0, 1},
		{"no connection to the new proxy", load.Result{Due: at(1800), Latency: time.Millisecond, Err: io.EOF}, 0, 1},
		{"body cut by the kill", request(0, 990, 1001, 200, io.ErrUnexpectedEOF), 1, 0},
		{"an error response during the outage", request(1200, 1200, 1201, 503, load.StatusError(503)), 0, 1},
		{"a bad answer of the new proxy", request(1600, 1600, 1601, 404, load.StatusError(404)), 0, 1},
		{"never sent during the outage", load.Result{Due: at(1300), Err: load.ErrOverload}, 0, 1},
	}
	for _, tt := range tests {
		got := Summarize(append([]load.Result{tt.result}, good...), outage, time.Second)
		if got.Sent != 4 || got.Lost != tt.lost || got.Failed != tt.failed {
			t.Errorf("%s: %+v, want %d lost and %d failed", tt.name, got, tt.lost, tt.failed)
		}
		if whole := Summarize([]load.Result{tt.result}, nil, time.Second); whole.Failed != 1 || whole.Lost != 0 {
			t.Errorf("%s: %+v, but no proxy died: it is a failure", tt.name, whole)
		}
	}
	never := Summarize([]load.Result{request(1600, 1600, 1601, 0, io.EOF)}, outage, time.Second)
	if never.Lost != 1 {
		t.Errorf("no proxy is running again: %+v", never)
	}
	ready := *outage
	ready.Back = at(1550)
	if silent := Summarize([]load.Result{request(1600, 1600, 1601, 0, io.EOF)}, &ready, time.Second); silent.Failed != 1 {
		t.Errorf("a proxy that is ready again and serves no request: %+v", silent)
	}
	slow := Summarize([]load.Result{
		request(0, 100, 1100, 0, context.DeadlineExceeded), request(0, 200, 201, 0, io.EOF),
		{Due: at(1090), Lag: time.Millisecond, Err: load.ErrOverload},
	}, nil, time.Second)
	if diff := cmp.Diff([]Span{{at(100), at(1100)}, {at(90), at(1091)}}, slow.Unanswered); diff != "" || slow.Failed != 3 {
		t.Errorf("%d failed, unanswered (-want +got):\n%s", slow.Failed, diff)
	}
	for name, tt := range map[string]struct {
		result load.Result
		want   bool // whether it is the slowest answer of a living proxy
	}{
		"before the kill":      {request(0, 800, 990, 200, nil), true},
		"of its successor":     {request(1600, 1600, 1700, 200, nil), true},
		"it died meanwhile":    {request(0, 900, 1800, 200, nil), false},
		"while there was none": {request(1200, 1200, 1900, 200, nil), false},
	} {
		tally := Summarize(append([]load.Result{tt.result}, good...), outage, time.Second)
		if slowest := tally.Slowest == tt.result.Latency; slowest != tt.want {
			t.Errorf("%s: slowest answer %s, that of %s: %v", name, tally.Slowest, tt.result.Latency, slowest)
		}
	}
	held := Summarize([]load.Result{request(0, 1600, 1600, 0, load.ErrPinnedLost)}, outage, time.Second)
	if held.Sent != 0 || held.Lost != 0 || held.Failed != 0 {
		t.Errorf("held back for a connection that died with the proxy: %+v", held)
	}
	var sum Tally
	sum.Add(Summarize([]load.Result{request(5, 7, 8, 503, load.StatusError(503))}, nil, time.Second))
	sum.Add(Summarize([]load.Result{request(0, 1, 2, 0, load.ErrPinnedLost)}, nil, time.Second))
	sum.Add(Tally{Unanswered: slow.Unanswered, Slowest: time.Minute})
	if sum.Sent != 2 || sum.Failed != 2 || sum.Reasons["HTTP status 503"] != 1 || len(sum.Unanswered) != 2 ||
		sum.Slowest != time.Minute {
		t.Errorf("sum %+v", sum)
	}
	want := []string{
		"requests failed that were due from +0.001 s to +0.007 s",
		"  fresh HTTP/1.1, due +0.007 s, over a connection of +0.005 s, 0.001 s later: HTTP status 503",
	}
	if diff := cmp.Diff(want, sum.Describe(start, time.Second)); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
	}
}
