package demand_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/demand"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// TestHeldRequestsCountOnce: in flight, but for those that proxies count already; of all replicas; and
// whatever else is not known, since each of them is at one replica.
func TestHeldRequestsCountOnce(t *testing.T) {
	t.Parallel()
	report := func(held demand.Held, heard ...string) demand.Report {
		return demand.Report{
			Fleets: map[ir.Fleet]demand.FleetReport{fleet: {Serving: []string{"1"}, Heard: heard}},
			Objects: map[string]demand.ObjectReport{
				shop.String(): {Fleet: fleet, Metric: demand.Concurrency, Concurrency: 2},
			},
			Held: map[string]demand.Held{shop.String(): held, "apps/other": {Waiting: 100}},
		}
	}
	three := demand.Held{Waiting: 3, Counted: 1}
	for name, c := range map[string]struct {
		reports     []demand.Report
		concurrency float64
		held        int
		isKnown     bool
	}{
		"one replica":               {[]demand.Report{report(three, "1")}, 4, 3, true},
		"two replicas":              {[]demand.Report{report(three, "1"), report(demand.Held{Waiting: 5})}, 11, 8, true},
		"a proxy that nobody hears": {[]demand.Report{report(three)}, 4, 3, false},
		"a proxy that two hear":     {[]demand.Report{report(three, "1"), report(three, "1")}, 4, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := demand.Merge(shop, c.reports, nil)
			if value.Concurrency != c.concurrency || value.Held != c.held || (err == nil) != c.isKnown || err != nil && !errors.Is(err, demand.ErrUnknown) {
				t.Errorf("%+v, %v, want %v in flight and %d held", value, err, c.concurrency, c.held)
			}
		})
	}
}

// TestAReportOfWhatIsHeldAlone leaves the rest as it was.
func TestAReportOfWhatIsHeldAlone(t *testing.T) {
	t.Parallel()
	before := demand.Report{Replica: "a", Objects: map[string]demand.ObjectReport{"x": {}}, Held: map[string]demand.Held{"x": {Waiting: 1}}}
	partial := demand.Report{Replica: "a", Held: map[string]demand.Held{"y": {Waiting: 2}}, HeldOnly: true}
	want := before
	want.Held = partial.Held
	if diff := cmp.Diff(want, partial.After(before)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	whole := demand.Report{Replica: "a"}
	if diff := cmp.Diff(whole, whole.After(before)); diff != "" {
		t.Errorf("a whole one, -want +got:\n%s", diff)
	}
}
