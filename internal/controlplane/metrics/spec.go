package metrics

import (
	"errors"
	"fmt"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Metric is a measure by which a workload scales. The zero value is not one.
type Metric string

const (
	// RequestRate is the number of requests per second, averaged over a window.
	RequestRate Metric = "requestRate"
	// Concurrency is the number of requests in flight.
	Concurrency Metric = "concurrency"
)

// Defaults of a Spec, those of the KEDA HTTP add-on v0.11.
const (
	DefaultTarget      = 100
	DefaultWindow      = time.Minute
	DefaultGranularity = time.Second
)

// maxWindow bounds how long anything is remembered.
const maxWindow = time.Hour

// ErrSpec is in the chain of errors about a Spec that means nothing.
var ErrSpec = errors.New("invalid scaling metric")

// Spec says what the demand for an HTTPScaledObject is measured by.
type Spec struct {
	// Metric is the measure that decides.
	Metric Metric
	// Target is its value per replica of the workload, at least 1.
	Target int
	// Window is the time over which the request rate is averaged, and Granularity the length of the
	// slices in which requests are counted, at most Window.
	Window, Granularity time.Duration
	// ExternalKey is the name of a cluster of a foreign proxy that is counted in place of the
	// object's own clusters; "" for none.
	ExternalKey string
}

// SpecOf reads the Spec of an object. Without spec.scalingMetric, concurrency decides, as in the HTTP
// add-on. The error has ErrSpec in its chain and names field, value and remedy; the Spec is then the default one.
func SpecOf(object *httpv1alpha1.HTTPScaledObject) (Spec, error) {
	spec := Spec{
		Metric: Concurrency, Target: DefaultTarget, Window: DefaultWindow, Granularity: DefaultGranularity,
		ExternalKey: object.Annotations[httpv1alpha1.AnnotationExternalProxyMetricKey],
	}
	asked := object.Spec.ScalingMetric
	switch {
	case asked != nil && asked.Concurrency != nil && asked.RequestRate != nil:
		return spec, fmt.Errorf("%w: spec.scalingMetric has both concurrency and requestRate; remove one", ErrSpec)
	case asked != nil && asked.RequestRate != nil:
		return rateSpec(spec, asked.RequestRate)
	case asked != nil && asked.Concurrency != nil:
		return targeted(spec, "concurrency.targetValue", asked.Concurrency.TargetValue)
	case object.Spec.TargetPendingRequests != nil:
		spec.Target = max(1, int(*object.Spec.TargetPendingRequests))
	}
	return spec, nil
}

// rateSpec is spec for a request rate.
func rateSpec(spec Spec, asked *httpv1alpha1.RequestRateMetric) (Spec, error) {
	read := spec
	read.Metric = RequestRate
	if asked.Window != nil {
		read.Window = asked.Window.Duration
	}
	if asked.Granularity != nil {
		read.Granularity = asked.Granularity.Duration
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"window", read.Window}, {"granularity", read.Granularity}} {
		if field.value <= 0 || field.value > maxWindow {
			return spec, fmt.Errorf("%w: spec.scalingMetric.requestRate.%s is %v; set it to a duration above 0s, at most %v",
				ErrSpec, field.name, field.value, maxWindow)
		}
	}
	read.Granularity = min(read.Granularity, read.Window)
	return targeted(read, "requestRate.targetValue", asked.TargetValue)
}

// targeted is spec with a target, the default one if that is not set.
func targeted(spec Spec, field string, target int) (Spec, error) {
	if target < 0 {
		return spec, fmt.Errorf("%w: spec.scalingMetric.%s is %d; set it to 1 or more", ErrSpec, field, target)
	}
	if target > 0 {
		spec.Target = target
	}
	return spec, nil
}
