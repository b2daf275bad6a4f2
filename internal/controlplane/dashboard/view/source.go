package view

import (
	"errors"
	"math"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Source is what the interceptor has of one object. Its values are shared and must not be modified.
type Source struct {
	// Object is the HTTPScaledObject or the converted InterceptorRoute, with its status.
	Object *httpv1alpha1.HTTPScaledObject
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Route is the first published route, nil if nothing is published. All routes of an object have the same backends.
	Route *model.Route
	// Endpoints are those of the backends of Route, in the same order.
	Endpoints []model.Endpoints
	// Weights are the effective weights of the backends, in the same order.
	Weights []uint32
}

// NewSource returns the Source of an object with its published configuration. It keeps nothing of the maps in config.
func NewSource(object *httpv1alpha1.HTTPScaledObject, fleet model.Fleet, config model.Config) Source {
	source := Source{Object: object, Fleet: fleet}
	if len(config.Routes) == 0 {
		return source
	}
	source.Route = &config.Routes[0]
	source.Weights = model.EffectiveWeights(source.Route.Backends, config.Services)
	for _, backend := range source.Route.Backends {
		source.Endpoints = append(source.Endpoints, config.Services[backend.ServicePort()])
	}
	return source
}

// Key returns the namespace and the name of the object.
func (s Source) Key() model.Key { return model.Key{Namespace: s.Object.Namespace, Name: s.Object.Name} }

// Resource returns the plural name of the object's resource in API group http.keda.sh.
func (s Source) Resource() string {
	if s.Object.Spec.Converted != nil {
		return httpv1beta1.Resource
	}
	return httpv1alpha1.Resource
}

// DemandOf returns the demand for an object from the reports of the interceptors. absent are the names of those
// without a report.
func DemandOf(key model.Key, reports []metrics.Report, absent []string) (Demand, map[string]metrics.Totals) {
	value, err := metrics.Merge(key, reports, absent)
	if err == nil {
		err = value.RateError
	}
	demand := Demand{
		Metric: value.Metric, Target: value.Target, Queued: value.Queued,
		RequestRate: round(value.RequestRate), Concurrency: round(value.Concurrency),
	}
	demand.IsActive = demand.RequestRate > 0 || demand.Concurrency > 0 || demand.Queued > 0
	if err != nil {
		demand.Unknown = reasonOf(err)
	}
	return demand, value.Backends
}

// maxReason limits a reason in bytes: a fleet can have many proxies.
const maxReason = 300

// reasonOf returns the text of an error, which names the object itself.
func reasonOf(err error) string {
	if inner := errors.Unwrap(err); inner != nil && !errors.Is(inner, metrics.ErrUnknown) {
		err = inner
	}
	text := []rune(err.Error())
	if len(text) > maxReason {
		return string(text[:maxReason]) + "…"
	}
	return string(text)
}

// round rounds to three significant digits, so that a value that changes little is sent less often.
func round(value float64) float64 {
	const digits = 3
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	scale := math.Pow(10, digits-math.Ceil(math.Log10(math.Abs(value))))
	return math.Round(value*scale) / scale
}
