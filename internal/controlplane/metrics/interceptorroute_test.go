package metrics_test

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// TestSwitchOfAPIKeepsCounts: an InterceptorRoute that takes over from an HTTPScaledObject of the same name was created
// later, and may have both metrics. Its request rate includes the requests before.
func TestSwitchOfAPIKeepsCounts(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	s.run(20, "1")
	s.want(10, "")
	route := shopObject("")
	route.Created = s.now.Add(-time.Second)
	route.Spec.Metric, route.Spec.Target, route.Spec.RateTarget = metrics.Concurrency, 3, 5
	s.meter.SetObject(s.now, shop, route)
	s.want(10, "")
	s.run(1, "1")
	s.want(10, "")
	reports := []metrics.Report{s.meter.Report(s.now, "a")}
	value, err := metrics.Merge(shop, reports, nil)
	if err != nil || value.Metric != metrics.Concurrency || value.Target != 3 || value.RateTarget != 5 || value.Concurrency != 2 {
		t.Errorf("got %+v, %v", value, err)
	}
	// The scaler needs the targets even if the demand is unknown.
	broken := reports[0].Objects[shop.String()]
	broken.Problem = "a problem"
	reports[0].Objects[shop.String()] = broken
	value, err = metrics.Merge(shop, reports, nil)
	if err == nil || value.Metric != metrics.Concurrency || value.Target != 3 || value.RateTarget != 5 || value.RequestRate != 0 {
		t.Errorf("unknown demand: got %+v, %v", value, err)
	}
}
