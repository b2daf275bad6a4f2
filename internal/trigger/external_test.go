package trigger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// TestParseExternal parses triggers of applications behind Envoys of the user.
func TestParseExternal(t *testing.T) {
	t.Parallel()
	valid := trigger.Trigger{
		Metric: trigger.MetricConcurrency, TargetValue: 10, Granularity: time.Second, Window: time.Minute,
		ExternalProxyMetricKey: "shop", ExternalProxySources: "10.0.0.0/8",
	}
	for name, c := range map[string]struct {
		metadata map[string]string
		want     trigger.Trigger
		problems []string
		isUsable bool
	}{
		"complete": {
			metadata: map[string]string{
				"scalingMetric": "concurrency", "targetValue": "10", "externalProxyMetricKey": "shop",
				"externalProxySources": "10.0.0.0/8",
			},
			want: valid, isUsable: true,
		},
		"converted": {
			metadata: map[string]string{
				"scalingMetric": "concurrency", "targetValue": "10", "externalProxyMetricKey": "shop",
				"externalProxySources": "10.0.0.0/8", "scalerAddress": "scaler.keda:9090", "httpScaledObject": "shop",
				"convertedFrom": "kedify-envoy-http",
			},
			want: valid, isUsable: true,
		},
		"as in the sample": {
			metadata: map[string]string{"scalingMetric": "requestRate", "targetValue": "10", "externalProxyMetricKey": "test"},
			want: trigger.Trigger{
				Metric: trigger.MetricRequestRate, TargetValue: 10, Granularity: time.Second, Window: time.Minute,
				ExternalProxyMetricKey: "test",
			},
			isUsable: true,
			problems: []string{
				"externalProxySources: missing, so no Envoy may report requests, and the application keeps its replicas: set it " +
					"to the addresses or CIDRs of your Envoys, such as 10.0.0.0/8",
			},
		},
		"nothing": {
			want: trigger.Trigger{
				Metric: trigger.MetricRequestRate, TargetValue: 100, Granularity: time.Second, Window: time.Minute,
			},
			problems: []string{
				"externalProxyMetricKey: is required: set it to the name of the cluster of this application in your Envoys",
			},
		},
		"keys of the other type, and unknown ones": {
			metadata: map[string]string{
				"externalProxyMetricKey": "shop", "externalProxySources": "10.0.0.0/8", "hosts": "shop.test", "colour": "red",
				"window": "1ms", "service": "",
			},
			want: trigger.Trigger{
				Metric: trigger.MetricRequestRate, TargetValue: 100, Granularity: time.Second, Window: time.Second,
				ExternalProxyMetricKey: "shop", ExternalProxySources: "10.0.0.0/8",
			},
			isUsable: true,
			problems: []string{
				`window "1ms": is shorter than the granularity of 1s, which applies; use a multiple of it`,
				`hosts "shop.test": has no effect with type kedify-envoy-http, because your Envoys route the requests; remove it, or ` +
					`use type kedify-http`,
				`colour "red": unknown key, ignored; remove it`,
			},
		},
	} {
		got, problems := trigger.ParseExternal(c.metadata)
		var texts []string
		for _, problem := range problems {
			texts = append(texts, problem.String())
		}
		if diff := cmp.Diff(c.problems, texts); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", name, diff)
		}
		if !cmp.Equal(got, c.want) || trigger.Usable(problems) != c.isUsable {
			t.Errorf("%s: %+v, usable %v", name, got, trigger.Usable(problems))
		}
	}
}
