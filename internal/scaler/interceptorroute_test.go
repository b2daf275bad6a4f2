package scaler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// TestInterceptorRouteTrigger has triggers as users of the KEDA HTTP add-on write them: only the name of an
// InterceptorRoute, which defines the metrics and their targets. Both metrics are reported.
func TestInterceptorRouteTrigger(t *testing.T) {
	const rate, concurrency = "http-request-rate", "http-concurrency"
	spec := func(specs ...*externalscaler.MetricSpec) []*externalscaler.MetricSpec { return specs }
	byRate := &externalscaler.MetricSpec{MetricName: rate, TargetSizeFloat: 100}
	byConcurrency := &externalscaler.MetricSpec{MetricName: concurrency, TargetSizeFloat: 10}
	onlyRate := metrics.Value{Metric: metrics.RequestRate, Target: 100}
	both := metrics.Value{Metric: metrics.Concurrency, Target: 10, RateTarget: 100}
	with := func(value metrics.Value, requestRate, inFlight float64, rateError error) metrics.Value {
		value.RequestRate, value.Concurrency, value.RateError = requestRate, inFlight, rateError
		return value
	}
	for name, c := range map[string]struct {
		known     *state // nil if no interceptor reports the object
		specs     []*externalscaler.MetricSpec
		specCode  codes.Code
		active    bool
		errActive codes.Code
		values    map[string]float64 // by metric
		errValues map[string]codes.Code
	}{
		"one metric": {
			known: &state{demand: with(onlyRate, 12.5, 3, nil)}, specs: spec(byRate), active: true,
			values: map[string]float64{rate: 12.5}, errValues: map[string]codes.Code{concurrency: codes.InvalidArgument},
		},
		"both metrics": {
			known: &state{demand: with(both, 12.5, 3, nil)}, specs: spec(byConcurrency, byRate), active: true,
			values: map[string]float64{rate: 12.5, concurrency: 3},
		},
		"no demand": {
			known: &state{demand: both}, specs: spec(byConcurrency, byRate), values: map[string]float64{rate: 0, concurrency: 0},
		},
		"only a rate": {
			known: &state{demand: with(both, 0.5, 0, nil)}, specs: spec(byConcurrency, byRate), active: true,
			values: map[string]float64{rate: 0.5, concurrency: 0},
		},
		"an unknown rate": {
			known: &state{demand: with(both, 0, 0, errSilent)}, specs: spec(byConcurrency, byRate), errActive: codes.Unavailable,
			values: map[string]float64{concurrency: 0}, errValues: map[string]codes.Code{rate: codes.Unavailable},
		},
		"unknown demand": {
			known: &state{demand: both, err: errSilent}, specs: spec(byConcurrency, byRate), errActive: codes.Unavailable,
			errValues: map[string]codes.Code{rate: codes.Unavailable, concurrency: codes.Unavailable},
		},
		"a canary": {
			known: &state{demand: both, canary: true}, specs: spec(byConcurrency, byRate), active: true,
		},
		"no report": {
			specCode: codes.NotFound, errActive: codes.NotFound,
			errValues: map[string]codes.Code{rate: codes.NotFound, concurrency: codes.NotFound},
		},
		"a report without a target": {
			known: &state{}, specCode: codes.Unavailable, errValues: map[string]codes.Code{rate: codes.Unavailable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeSource()
			if c.known != nil {
				w.set(types.NamespacedName{Namespace: "shop", Name: "route"}, *c.known)
			}
			client, _, _ := serve(t, w, 10)
			ref := reference(map[string]string{"interceptorRoute": "route", "httpScaledObject": "other", "targetValue": "x"})
			got, err := client.GetMetricSpec(t.Context(), ref)
			if diff := cmp.Diff(c.specs, got.GetMetricSpecs(), protocmp.Transform()); diff != "" || status.Code(err) != c.specCode {
				t.Errorf("GetMetricSpec: %v, want %v; (-want +got)\n%s", err, c.specCode, diff)
			}
			isActive, err := client.IsActive(t.Context(), ref)
			if isActive.GetResult() != c.active || status.Code(err) != c.errActive {
				t.Errorf("IsActive = %v, %v; want %v, %v", isActive.GetResult(), err, c.active, c.errActive)
			}
			request := &externalscaler.GetMetricsRequest{ScaledObjectRef: ref}
			for name, want := range c.values {
				request.MetricName = name
				got, err := client.GetMetrics(t.Context(), request)
				if diff := cmp.Diff(metric(name, want), got, protocmp.Transform()); diff != "" || err != nil {
					t.Errorf("GetMetrics of %s: %v; (-want +got)\n%s", name, err, diff)
				}
			}
			for name, want := range c.errValues {
				request.MetricName = name
				if _, err := client.GetMetrics(t.Context(), request); status.Code(err) != want {
					t.Errorf("GetMetrics of %s: %v, want %v", name, err, want)
				}
			}
		})
	}
}

// TestInterceptorRouteName rejects a name of another namespace.
func TestInterceptorRouteName(t *testing.T) {
	client, _, _ := serve(t, newFakeSource(), 10)
	_, err := client.IsActive(t.Context(), reference(map[string]string{"interceptorRoute": "bank/web"}))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v, want an invalid argument", err)
	}
}
