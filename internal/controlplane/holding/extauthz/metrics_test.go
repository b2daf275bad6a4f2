package extauthz_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
)

// TestCountersStartAtZero: each outcome has a series before the first request. Otherwise Prometheus sees no increase when
// the first request has it, and an alert would miss the first failure.
func TestCountersStartAtZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := extauthz.New(extauthz.Options{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "kedify_hold_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			outcomes[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	want := []string{
		"canceled", "deadline", "failover", "limit", "passed", "paused", "probe", "served", "unknown", "waiting-page",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(outcomes))); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	for outcome, count := range outcomes {
		if count != 0 {
			t.Errorf("outcome %s: %v requests, want none", outcome, count)
		}
	}
}
