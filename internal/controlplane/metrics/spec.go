package metrics

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/sources"
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
	// RateTarget is the target of the request rate if the object scales by both metrics, otherwise 0. Metric is then
	// Concurrency.
	RateTarget int
	// Window is the time over which the request rate is averaged, and Granularity the length of the buckets in which
	// requests are counted, at most Window.
	Window, Granularity time.Duration
	// ExternalKey is the name of a cluster of external proxies that is counted instead of the object's own clusters;
	// "" for none. Only proxies with an address in ExternalSources count.
	ExternalKey     string
	ExternalSources []netip.Prefix
}

// SpecOf returns the Spec of an object. Without spec.scalingMetric the metric is concurrency, as in the HTTP add-on.
// The error has ErrSpec in its chain and contains field, value and fix; the Spec is then the default one.
func SpecOf(object *httpv1alpha1.HTTPScaledObject) (Spec, error) {
	spec := Spec{
		Metric: Concurrency, Target: DefaultTarget, Window: DefaultWindow, Granularity: DefaultGranularity,
		ExternalKey: object.Annotations[httpv1alpha1.AnnotationExternalProxyMetricKey],
	}
	if err := spec.setSources(object.Annotations[httpv1alpha1.AnnotationExternalProxySources]); err != nil {
		return spec, err
	}
	metric := object.Spec.ScalingMetric
	switch {
	case metric != nil && metric.Concurrency != nil && metric.RequestRate != nil && object.Spec.Converted != nil:
		return specOfBoth(spec, metric)
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

// specOfBoth returns the Spec of an InterceptorRoute with both metrics.
func specOfBoth(spec Spec, metric *httpv1alpha1.ScalingMetric) (Spec, error) {
	both, err := rateSpec(spec, metric.RequestRate)
	if err != nil {
		return spec, err
	}
	both.RateTarget, both.Metric, both.Target = both.Target, spec.Metric, spec.Target
	return withTarget(both, "concurrency.targetValue", metric.Concurrency.TargetValue)
}

// setSources sets ExternalSources from the value of AnnotationExternalProxySources, which an object with an external
// key must have.
func (s *Spec) setSources(text string) (err error) {
	const annotation = httpv1alpha1.AnnotationExternalProxySources
	if s.ExternalKey == "" {
		return nil
	}
	if s.ExternalSources, err = sources.Parse(text); err != nil {
		return fmt.Errorf("%w: annotation %s: %w", ErrSpec, annotation, err)
	}
	if len(s.ExternalSources) == 0 {
		return fmt.Errorf("%w: annotation %s is missing, so no proxy may report cluster %.80q: set it to the addresses or "+
			"CIDRs of the proxies, such as 10.0.0.0/8", ErrSpec, annotation, s.ExternalKey)
	}
	return nil
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
