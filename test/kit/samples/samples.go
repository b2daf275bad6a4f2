// Package samples reads the metrics of a registry in tests.
package samples

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// ByLabel returns the values of the series of a counter or a gauge by their value of a label, which is empty for a
// series without the label. It is empty if there is no such metric.
func ByLabel(t *testing.T, registry prometheus.Gatherer, name, label string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			key := ""
			for _, pair := range series.GetLabel() {
				if pair.GetName() == label {
					key = pair.GetValue()
				}
			}
			values[key] = series.GetCounter().GetValue() + series.GetGauge().GetValue() // One of them is nil, so 0.
		}
	}
	return values
}

// Value returns the value of a counter or a gauge without labels. If there is no such metric, the test fails.
func Value(t *testing.T, registry prometheus.Gatherer, name string) float64 {
	t.Helper()
	values := ByLabel(t, registry, name, "")
	if len(values) == 0 {
		t.Fatalf("there is no metric %s", name)
	}
	return values[""]
}
