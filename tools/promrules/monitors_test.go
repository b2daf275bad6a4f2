package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestMonitors: the PodMonitors and PrometheusRules of config and of the chart consist of fields that the Prometheus
// operator has. The tests with Helm install none of them, because they need its CustomResourceDefinitions.
func TestMonitors(t *testing.T) {
	files, err := filepath.Glob("../../test/chart/testdata/*/rendered.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	count := map[string]int{}
	for _, file := range append(files, "../../config/prometheus/podmonitors.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			if !strings.Contains(document, "\napiVersion: monitoring.coreos.com/") &&
				!strings.HasPrefix(document, "apiVersion: monitoring.coreos.com/") {
				continue
			}
			kind := decodeMonitor(t, file, []byte(document))
			count[kind]++
		}
	}
	if count[monitoringv1.PodMonitorsKind] < 4 || count[monitoringv1.PrometheusRuleKind] == 0 {
		t.Errorf("objects %v: some were not found", count)
	}
}

// decodeMonitor decodes an object of the Prometheus operator, and returns its kind.
func decodeMonitor(t *testing.T, file string, document []byte) string {
	t.Helper()
	var about struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &about); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if about.APIVersion != monitoringv1.SchemeGroupVersion.String() {
		t.Errorf("%s: %s has apiVersion %s", file, about.Kind, about.APIVersion)
	}
	switch about.Kind {
	case monitoringv1.PodMonitorsKind:
		var monitor monitoringv1.PodMonitor
		if err := yaml.UnmarshalStrict(document, &monitor); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
			if endpoint.Port == nil || *endpoint.Port == "" {
				t.Errorf("%s: PodMonitor %s has an endpoint without a port", file, monitor.Name)
			}
		}
	case monitoringv1.PrometheusRuleKind:
		var rule monitoringv1.PrometheusRule
		if err := yaml.UnmarshalStrict(document, &rule); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(rule.Spec.Groups) == 0 {
			t.Errorf("%s: PrometheusRule %s has no groups", file, rule.Name)
		}
	default:
		t.Errorf("%s: kind %s is not tested", file, about.Kind)
	}
	return about.Kind
}
