package metrics

import (
	"errors"
	"fmt"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Metric is a metric that a workload scales by. The zero value is invalid.
type Metric string

const (
	// RequestRate is the number of requests per second, averaged over a window.
	RequestRate Metric = "requestRate"
	// Concurrency is the number of active requests.
	Concurrency Metric = "concurrency"
)

// Defaults of a Spec, those of the KEDA HTTP add-on v0.11.
const (
	DefaultTarget      = 100
	DefaultWindow      = time.Minute
	DefaultGranularity = time.Second
)

// maxWindow limits the window, and how long a Meter keeps data.
const maxWindow = time.Hour

// ErrSpec is in the chain of validation errors of a Spec.
var ErrSpec = errors.New("invalid scaling metric")

// Spec defines how the demand for an HTTPScaledObject is measured.
type Spec struct {
	// Metric is the metric that the object scales by.
	Metric Metric
	// Target is its value per replica of the workload, at least 1.
	Target int
	// Window is the time over which the request rate is averaged, and Granularity the length of the buckets in which
	// requests are counted, at most Window.
	Window, Granularity time.Duration
	// ExternalKey is the name of a cluster of an external proxy that is counted instead of the object's own clusters;
	// "" for none.
	ExternalKey string
}

// SpecOf returns the Spec of an object. Without spec.scalingMetric the metric is concurrency, as in the HTTP add-on.
// The error has ErrSpec in its chain and contains field, value and fix; the Spec is then the default one.
func SpecOf(object *httpv1alpha1.HTTPScaledObject) (Spec, error) {
	spec := Spec{
		Metric: Concurrency, Target: DefaultTarget, Window: DefaultWindow, Granularity: DefaultGranularity,
		ExternalKey: object.Annotations[httpv1alpha1.AnnotationExternalProxyMetricKey],
	}
	metric := object.Spec.ScalingMetric
	switch {
	case metric != nil && metric.Concurrency != nil && metric.RequestRate != nil:
		return spec, fmt.Errorf("%w: spec.scalingMetric has both concurrency and requestRate; remove one", ErrSpec)
	case metric != nil && metric.RequestRate != nil:
		return rateSpec(spec, metric.RequestRate)
	case metric != nil && metric.Concurrency != nil:
		return withTarget(spec, "concurrency.targetValue", metric.Concurrency.TargetValue)
	case object.Spec.TargetPendingRequests != nil:
		spec.Target = max(1, int(*object.Spec.TargetPendingRequests))
	}
	return spec, nil
}

// rateSpec returns the Spec for a request rate.
func rateSpec(spec Spec, metric *httpv1alpha1.RequestRateMetric) (Spec, error) {
	rate := spec
	rate.Metric = RequestRate
	if metric.Window != nil {
		rate.Window = metric.Window.Duration
	}
	if metric.Granularity != nil {
		rate.Granularity = metric.Granularity.Duration
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"window", rate.Window}, {"granularity", rate.Granularity}} {
		if field.value <= 0 || field.value > maxWindow {
			return spec, fmt.Errorf("%w: spec.scalingMetric.requestRate.%s is %v; set it to a duration above 0s, at most %v",
				ErrSpec, field.name, field.value, maxWindow)
		}
	}
	rate.Granularity = min(rate.Granularity, rate.Window)
	return withTarget(rate, "requestRate.targetValue", metric.TargetValue)
}

// withTarget returns a Spec with a target, or the default target for 0.
func withTarget(spec Spec, field string, target int) (Spec, error) {
	if target < 0 {
		return spec, fmt.Errorf("%w: spec.scalingMetric.%s is %d; set it to 1 or more", ErrSpec, field, target)
	}
	if target > 0 {
		spec.Target = target
	}
	return spec, nil
}
