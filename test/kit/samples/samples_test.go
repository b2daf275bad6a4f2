package samples_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/test/kit/samples"
)

func TestValues(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."}, []string{"method", "code"})
	waiting := prometheus.NewGauge(prometheus.GaugeOpts{Name: "waiting", Help: "Waiting."})
	registry.MustRegister(calls, waiting)
	calls.WithLabelValues("Check", "OK").Add(3)
	calls.WithLabelValues("Watch", "OK")
	waiting.Set(-2)

	want := map[string]float64{"Check": 3, "Watch": 0}
	if diff := cmp.Diff(want, samples.ByLabel(t, registry, "calls_total", "method")); diff != "" {
		t.Errorf("calls by method (-want +got):\n%s", diff)
	}
	if got := samples.ByLabel(t, registry, "no_such_metric", "method"); len(got) != 0 {
		t.Errorf("values of an unknown metric: %v", got)
	}
	if got := samples.Value(t, registry, "waiting"); got != -2 {
		t.Errorf("waiting is %v, want -2", got)
	}
}
