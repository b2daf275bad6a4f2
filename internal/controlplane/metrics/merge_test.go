package metrics_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

func TestMergeOfReplicas(t *testing.T) {
	t.Parallel()
	object := func(rate float64) map[string]metrics.ObjectReport {
		return map[string]metrics.ObjectReport{shop.String(): {
			Fleet: fleet, Metric: metrics.RequestRate, Target: 5, RequestRate: rate, Concurrency: rate / 10,
		}}
	}
	report := func(rate float64, heard ...string) metrics.Report {
		return metrics.Report{
			Fleets: map[model.Fleet]metrics.FleetReport{
				fleet: {Serving: []string{"1", "2"}, Reporting: heard},
			}, Objects: object(rate),
		}
	}
	withoutObject := metrics.Report{Fleets: map[model.Fleet]metrics.FleetReport{fleet: {Reporting: []string{"2"}}}}
	young, moved, crooked := report(10, "1", "2"), report(10, "1", "2"), report(10, "1", "2")
	change := func(report metrics.Report, change func(*metrics.ObjectReport)) {
		object := report.Objects[shop.String()]
		change(&object)
		report.Objects[shop.String()] = object
	}
	change(young, func(object *metrics.ObjectReport) { object.Warming = []string{"2"} })
	change(moved, func(object *metrics.ObjectReport) { object.Fleet = "other" })
	change(crooked, func(object *metrics.ObjectReport) { object.Problem = "the window is crooked" })
	tests := map[string]struct {
		reports []metrics.Report
		absent  []string
		want    float64 // a lower bound where there is an error
		wantErr string  // in the error
	}{
		"each has one":        {reports: []metrics.Report{report(10, "1"), report(30, "2")}, want: 40},
		"one has all":         {reports: []metrics.Report{report(10, "1", "2"), report(0)}, want: 10},
		"no proxy is missing": {reports: []metrics.Report{report(10, "1", "2")}, absent: []string{"b"}, want: 10},
		"one proxy reports to none": {
			reports: []metrics.Report{report(10, "1")}, want: 10, wantErr: "proxy apps/2 sends no metrics",
		},
		"one reports to a replica without the object": {
			reports: []metrics.Report{report(10, "1"), withoutObject}, want: 10, wantErr: "proxy apps/2 sends no metrics",
		},
		"one may report to an absent replica": {
			reports: []metrics.Report{report(10, "1")}, absent: []string{"b"}, want: 10,
			wantErr: "proxy apps/2 sends no metrics; no report from interceptor b",
		},
		"one has sent one flush": {
			reports: []metrics.Report{young}, want: 10, wantErr: "proxy apps/2 has sent fewer than two flushes",
		},
		"one reports to two replicas": {
			reports: []metrics.Report{report(10, "1"), report(30, "1", "2")},
			wantErr: "proxy apps/1 sends metrics to two replicas (transient)",
		},
		"they report different fleets": {
			reports: []metrics.Report{report(10, "1", "2"), moved}, wantErr: "replicas report different fleets: apps and other",
		},
		"the object has a validation error": {reports: []metrics.Report{crooked}, wantErr: "the window is crooked"},
		"no replica reports": {
			absent: []string{"a", "b"}, wantErr: "no interceptor has reported it; no report from interceptor a, b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := metrics.Merge(shop, test.reports, test.absent)
			if test.wantErr != "" && (!errors.Is(err, metrics.ErrUnknown) || !strings.HasSuffix(err.Error(), test.wantErr)) ||
				test.wantErr == "" && err != nil {
				t.Errorf("error %v, want one with %q", err, test.wantErr)
			}
			if value.RequestRate != test.want || value.Concurrency != test.want/10 {
				t.Errorf("%+v, %v; want %v", value, err, test.want)
			}
		})
	}
}

// TestMovedStreamCountsOnce moves a proxy's stream from one replica to another in the middle of the window.
func TestMovedStreamCountsOnce(t *testing.T) {
	t.Parallel()
	a := newFixture(t, "1", "2")
	b := newFixture(t, "1", "2")
	want := func(rate float64, what string) {
		t.Helper()
		reports := []metrics.Report{a.meter.Report(a.now, "a"), b.meter.Report(a.now, "b")}
		value, err := metrics.Merge(shop, reports, nil)
		if err != nil || math.Abs(value.RequestRate-rate) > 0.01 {
			t.Errorf("%s: %v requests/s, %v; want %v", what, value.RequestRate, err, rate)
		}
	}
	a.run(20, "1", "2")
	b.run(20)
	a.end("2")
	a.run(5, "1")
	b.run(5, "2")
	want(20, "after the move")
	a.serving("1", "-2")
	b.serving("1", "-2")
	want(20, "the proxy leaves")
	b.end("2")
	want(19, "it has left") // The second between the move and the first flush is not covered.
	a.run(20, "1")
	b.run(20)
	want(10, "the window is over")
}
