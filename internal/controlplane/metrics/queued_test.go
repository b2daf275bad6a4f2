package metrics_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestQueuedRequestsCountOnce checks that queued requests of all replicas count as active unless the counters of
// proxies include them, even if the rest is unknown.
func TestQueuedRequestsCountOnce(t *testing.T) {
	t.Parallel()
	report := func(held metrics.Queued, heard ...string) metrics.Report {
		return metrics.Report{
			Fleets: map[model.Fleet]metrics.FleetReport{fleet: {Serving: []string{"1"}, Reporting: heard}},
			Objects: map[string]metrics.ObjectReport{
				shop.String(): {Fleet: fleet, Metric: metrics.Concurrency, Concurrency: 2},
			},
			Queued: map[string]metrics.Queued{shop.String(): held, "apps/other": {Waiting: 100}},
		}
	}
	three := metrics.Queued{Waiting: 3, Counted: 1}
	for name, c := range map[string]struct {
		reports     []metrics.Report
		concurrency float64
		held        int
		isKnown     bool
	}{
		"one replica":              {[]metrics.Report{report(three, "1")}, 4, 3, true},
		"two replicas":             {[]metrics.Report{report(three, "1"), report(metrics.Queued{Waiting: 5})}, 11, 8, true},
		"a proxy without metrics":  {[]metrics.Report{report(three)}, 4, 3, false},
		"a proxy with two streams": {[]metrics.Report{report(three, "1"), report(three, "1")}, 4, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := metrics.Merge(shop, c.reports, nil)
			if value.Concurrency != c.concurrency || value.Queued != c.held || (err == nil) != c.isKnown || err != nil &&
				!errors.Is(err, metrics.ErrUnknown) {
				t.Errorf("%+v, %v, want %v in flight and %d held", value, err, c.concurrency, c.held)
			}
		})
	}
}

// TestQueuedOnlyReport checks that a report of queued requests changes nothing else.
func TestQueuedOnlyReport(t *testing.T) {
	t.Parallel()
	before := metrics.Report{
		Replica: "a", Objects: map[string]metrics.ObjectReport{"x": {}}, Queued: map[string]metrics.Queued{"x": {Waiting: 1}},
	}
	partial := metrics.Report{Replica: "a", Queued: map[string]metrics.Queued{"y": {Waiting: 2}}, QueuedOnly: true}
	want := before
	want.Queued = partial.Queued
	if diff := cmp.Diff(want, partial.ApplyTo(before)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	whole := metrics.Report{Replica: "a"}
	if diff := cmp.Diff(whole, whole.ApplyTo(before)); diff != "" {
		t.Errorf("a whole one, -want +got:\n%s", diff)
	}
}
