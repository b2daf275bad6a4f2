package scaler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// TestConnectionsTrigger has triggers that scale the proxies of the ScaledObject's namespace by their connections.
func TestConnectionsTrigger(t *testing.T) {
	const name = "http-proxy-connections"
	for title, c := range map[string]struct {
		connections map[model.Fleet]float64
		metadata    string
		target      float64
		value       float64
		code        codes.Code // of GetMetrics and IsActive
		specCode    codes.Code
		active      bool
	}{
		"connections": {
			connections: map[model.Fleet]float64{"shop": 1700, "other": 9000}, metadata: "1000", target: 1000, value: 1700,
			active: true,
		},
		"none":               {connections: map[model.Fleet]float64{"shop": 0}, metadata: "1", target: 1},
		"a proxy is missing": {metadata: "1000", target: 1000, code: codes.Unavailable},
		"of another namespace": {
			connections: map[model.Fleet]float64{"other": 9000}, metadata: "1000", target: 1000, code: codes.Unavailable,
		},
		"no number": {metadata: "many", code: codes.InvalidArgument, specCode: codes.InvalidArgument},
		"zero":      {metadata: "0", code: codes.InvalidArgument, specCode: codes.InvalidArgument},
	} {
		t.Run(title, func(t *testing.T) {
			w := newFakeSource()
			w.connections = c.connections
			client, _, _ := serve(t, w, 10)
			ref := reference(map[string]string{"proxyConnections": c.metadata, "namespace": "other"})
			spec, err := client.GetMetricSpec(t.Context(), ref)
			var want []*externalscaler.MetricSpec
			if c.target > 0 {
				want = []*externalscaler.MetricSpec{{MetricName: name, TargetSizeFloat: c.target}}
			}
			if diff := cmp.Diff(want, spec.GetMetricSpecs(), protocmp.Transform()); diff != "" ||
				status.Code(err) != c.specCode {
				t.Errorf("specs, %v; want code %v (-want +got):\n%s", err, c.specCode, diff)
			}
			got, err := client.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref, MetricName: name})
			if status.Code(err) != c.code || c.code == codes.OK && got.GetMetricValues()[0].GetMetricValueFloat() != c.value {
				t.Errorf("%v, %v; want %v, code %v", got, err, c.value, c.code)
			}
			active, err := client.IsActive(t.Context(), ref)
			if status.Code(err) != c.code || active.GetResult() != c.active {
				t.Errorf("active %v, %v; want %v, code %v", active, err, c.active, c.code)
			}
			stream, err := client.StreamIsActive(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("a stream ends with %v, want %v", err, codes.InvalidArgument)
			}
		})
	}
}
