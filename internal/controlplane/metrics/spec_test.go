package metrics_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

func TestSpecOf(t *testing.T) {
	t.Parallel()
	rate := func(target int, window, granularity time.Duration) *httpv1alpha1.ScalingMetric {
		metric := &httpv1alpha1.RequestRateMetric{TargetValue: target}
		if window != 0 {
			metric.Window = &metav1.Duration{Duration: window}
		}
		if granularity != 0 {
			metric.Granularity = &metav1.Duration{Duration: granularity}
		}
		return &httpv1alpha1.ScalingMetric{RequestRate: metric}
	}
	withConcurrency := func(metric *httpv1alpha1.ScalingMetric, target int) *httpv1alpha1.ScalingMetric {
		metric.Concurrency = &httpv1alpha1.ConcurrencyMetric{TargetValue: target}
		return metric
	}
	pending := int32(7)
	tests := map[string]struct {
		spec    httpv1alpha1.HTTPScaledObjectSpec
		want    metrics.Spec
		wantErr string
	}{
		"nothing said": {
			want: metrics.Spec{Metric: metrics.Concurrency, Target: 100, Window: time.Minute, Granularity: time.Second},
		},
		"the old field": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{TargetPendingRequests: &pending},
			want: metrics.Spec{Metric: metrics.Concurrency, Target: 7, Window: time.Minute, Granularity: time.Second},
		},
		"concurrency": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{
				ScalingMetric: &httpv1alpha1.ScalingMetric{Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: 3}},
			},
			want: metrics.Spec{Metric: metrics.Concurrency, Target: 3, Window: time.Minute, Granularity: time.Second},
		},
		"a rate": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: rate(0, 0, 0)},
			want: metrics.Spec{Metric: metrics.RequestRate, Target: 100, Window: time.Minute, Granularity: time.Second},
		},
		"a rate with everything": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: rate(5, 10*time.Second, 500*time.Millisecond)},
			want: metrics.Spec{
				Metric: metrics.RequestRate, Target: 5, Window: 10 * time.Second, Granularity: 500 * time.Millisecond,
			},
		},
		"slices longer than the window": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: rate(5, time.Second, time.Minute)},
			want: metrics.Spec{Metric: metrics.RequestRate, Target: 5, Window: time.Second, Granularity: time.Second},
		},
		"a window before it begins": {
			spec:    httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: rate(5, -time.Second, 0)},
			wantErr: "spec.scalingMetric.requestRate.window is -1s; set it to a duration above 0s, at most 1h0m0s",
		},
		"a day": {
			spec:    httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: rate(5, 24*time.Hour, 0)},
			wantErr: "spec.scalingMetric.requestRate.window is 24h0m0s",
		},
		"a negative target": {
			spec:    httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: rate(-5, 0, 0)},
			wantErr: "spec.scalingMetric.requestRate.targetValue is -5; set it to 1 or more",
		},
		"both": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: &httpv1alpha1.ScalingMetric{
				Concurrency: &httpv1alpha1.ConcurrencyMetric{}, RequestRate: &httpv1alpha1.RequestRateMetric{},
			}},
			wantErr: "has both concurrency and requestRate; remove one",
		},
		"both of an InterceptorRoute": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{
				Converted: &httpv1alpha1.ConvertedSpec{}, ScalingMetric: withConcurrency(rate(5, 10*time.Second, 0), 3),
			},
			want: metrics.Spec{
				Metric: metrics.Concurrency, Target: 3, RateTarget: 5, Window: 10 * time.Second, Granularity: time.Second,
			},
		},
		"both of an InterceptorRoute, with an invalid window": {
			spec: httpv1alpha1.HTTPScaledObjectSpec{
				Converted: &httpv1alpha1.ConvertedSpec{}, ScalingMetric: withConcurrency(rate(5, -time.Second, 0), 3),
			},
			wantErr: "spec.scalingMetric.requestRate.window is -1s",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := metrics.SpecOf(&httpv1alpha1.HTTPScaledObject{Spec: test.spec})
			if test.wantErr != "" {
				if !errors.Is(err, metrics.ErrSpec) || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("SpecOf = %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

// TestExternalSourcesOf reads the annotations about external proxies.
func TestExternalSourcesOf(t *testing.T) {
	t.Parallel()
	const missing = "annotation http.kedify.io/external-proxy-sources is missing, so no proxy may report cluster \"x\""
	for name, test := range map[string]struct{ key, sources, want, wantErr string }{
		"neither":             {"", "", "[]", ""},
		"no key":              {"", "10.0.0.0/8", "[]", ""},
		"invalid without key": {"", "gateway", "[]", ""},
		"both":                {"x", "10.0.0.0/8, 192.0.2.7", "[10.0.0.0/8 192.0.2.7/32]", ""},
		"no sources":          {"x", "", "[]", missing},
		"no entry":            {"x", " ,", "[]", missing},
		"invalid sources": {
			"x", "gateway", "[]", `annotation http.kedify.io/external-proxy-sources: not a list of CIDRs: "gateway"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := new(httpv1alpha1.HTTPScaledObject)
			object.Annotations = map[string]string{
				httpv1alpha1.AnnotationExternalProxyMetricKey: test.key,
				httpv1alpha1.AnnotationExternalProxySources:   test.sources,
			}
			spec, err := metrics.SpecOf(object)
			if got := fmt.Sprint(spec.ExternalSources); got != test.want || spec.ExternalKey != test.key {
				t.Errorf("key %q of %s, want %q of %s", spec.ExternalKey, got, test.key, test.want)
			}
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("error %v, want one with %q", err, test.wantErr)
			}
		})
	}
}
