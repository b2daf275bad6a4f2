package testbed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// poll is a read of an Envoy's routes: the second in which it began, and the canary's weight.
type poll struct{ second, weight int }

// recordOf returns the record of these versions and of the reads of one Envoy.
func recordOf(versions []inside.Version, polls ...poll) *Record {
	r := newRecord()
	for _, v := range versions {
		r.addObject(v)
	}
	for _, l := range polls {
		shares := envoyadmin.Shares{}
		if l.weight < 100 {
			shares[envoyPair().Stable] = float64(100-l.weight) / 100
		}
		if l.weight > 0 {
			shares[envoyPair().Canary] = float64(l.weight) / 100
		}
		at := start().Add(time.Duration(l.second) * time.Second)
		r.addEnvoy("e", at, at, shares, nil)
	}
	return r
}

// fineTally is the result of a load without failed requests.
func fineTally() trace.Tally { return trace.Tally{Sent: 500} }

// Exactly one check detects each violation.
func TestVerdict(t *testing.T) {
	given := func(seconds ...int) []inside.Version { // 0, 20, and the last one twice: written, then acknowledged
		last := seconds[0]
		return []inside.Version{
			object(t, 0, 0, 0, 2, 2), object(t, 10, 20, 0, 2, 2), object(t, 11, 20, 20, 2, 2),
			object(t, 20, last, 20, 2, 2), object(t, 21, last, last, 2, 2),
		}
	}
	fine := fineTally()
	tests := []struct {
		name   string
		record *Record
		tally  trace.Tally
		ended  bool
		want   []Check
	}{
		{"nothing", recordOf(given(0), poll{0, 0}, poll{11, 20}, poll{21, 0}), fine, true, nil},
		{
			"a failed request", recordOf(given(0), poll{0, 0}, poll{11, 20}, poll{21, 0}),
			trace.Tally{Sent: 500, Failed: 1},
			true,
			[]Check{CheckFailedRequests},
		},
		{
			"no request", recordOf(given(0), poll{0, 0}, poll{11, 20}, poll{21, 0}),
			trace.Tally{},
			true,
			[]Check{CheckFailedRequests},
		},
		{
			"an unexpected weight on the way", recordOf(given(0), poll{0, 0}, poll{10, 30}, poll{11, 20}, poll{21, 0}), fine,
			true,
			[]Check{CheckUnexpectedWeights},
		},
		{
			"acknowledged too early", recordOf(given(0), poll{0, 0}, poll{12, 0}, poll{13, 20}, poll{21, 0}), fine,
			true,
			[]Check{CheckEarlyACK},
		},
		{
			"an unexpected weight is left", recordOf(given(5), poll{0, 0}, poll{11, 20}, poll{21, 5}),
			fine, true,
			[]Check{CheckEnd},
		},
		{"one proxy is left behind", recordOf(given(0)[:4], poll{0, 0}, poll{11, 20}), fine, true, []Check{CheckEnd}},
		{"stuck on the way", recordOf(given(0)[:3], poll{0, 0}, poll{11, 20}), fine, false, nil},
		{
			"stuck at an unexpected weight", recordOf(given(5), poll{0, 0}, poll{11, 20}, poll{21, 5}), fine, false,
			[]Check{CheckUnexpectedWeights},
		},
	}
	for _, tt := range tests {
		var v Verdict
		v.evaluate(tt.record, start().Add(5*time.Second), []int{0, 20, 0}, tt.tally, tt.ended)
		if diff := cmp.Diff(tt.want, v.Failed()); diff != "" {
			t.Errorf("%s: checks that found something (-want +got):\n%s\n%v", tt.name, diff, v.Findings)
		}
	}
}

// A finding names the place, the observed weights and their times.
func TestFindings(t *testing.T) {
	versions := []inside.Version{object(t, 0, 0, 0, 2, 2), object(t, 10, 20, 0, 2, 2), object(t, 11, 20, 20, 2, 2)}
	var v Verdict
	v.evaluate(recordOf(versions, poll{0, 0}, poll{12, 0}), start().Add(5*time.Second),
		[]int{0, 20, 0}, trace.Tally{Sent: 1}, true)
	want := []string{
		"ACK before Envoy: status.dataPlane reported 20 at +6.000 s, but a request to e at +7.000 s returned 0",
		"end: annotation is 20 since +5.000 s, requested 0",
		"end: status.dataPlane is 20 since +6.000 s, requested 0",
	}
	var got []string
	for _, f := range v.Findings {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
