// Package interceptorroute converts InterceptorRoutes to the form in which the interceptor handles HTTPScaledObjects, so
// that resolving, publishing, metrics and statuses have one implementation for both APIs.
//
// The package is pure.
package interceptorroute

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
)

// anyHost is the host of a rule that matches every host.
const anyHost = "*"

// Convert returns the HTTPScaledObject with the meaning of an InterceptorRoute. It has spec.Converted, and shares
// metadata with the route.
func Convert(route *httpv1beta1.InterceptorRoute) *httpv1alpha1.HTTPScaledObject {
	spec, converted := route.Spec, &httpv1alpha1.ConvertedSpec{}
	for _, rule := range spec.Rules {
		converted.Rules = append(converted.Rules, ruleOf(rule))
	}
	object := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: route.ObjectMeta,
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
				Service: spec.Target.Service, Port: spec.Target.Port, PortName: spec.Target.PortName,
			},
			ScalingMetric: scalingMetricOf(spec.ScalingMetric),
			Converted:     converted,
			Unreadable:    spec.Unreadable,
		},
		Status: httpv1alpha1.HTTPScaledObjectStatus{Conditions: route.Status.Conditions},
	}
	setTimeouts(&object.Spec, spec)
	setStatic(object, spec)
	object.Status = httpv1alpha1.StatusOf(object)
	return object
}

// IsConverted reports whether an object was converted from an InterceptorRoute.
func IsConverted(object *httpv1alpha1.HTTPScaledObject) bool { return object.Spec.Converted != nil }

// KindOf returns the kind of the API object that an object stands for.
func KindOf(object *httpv1alpha1.HTTPScaledObject) schema.GroupVersionKind {
	if IsConverted(object) {
		return httpv1beta1.SchemeGroupVersion.WithKind(httpv1beta1.Kind)
	}
	return httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind)
}

// ruleOf converts a rule. An empty host means every host, and a path needs no "/" at its start, as in the KEDA HTTP
// add-on.
func ruleOf(from httpv1beta1.RoutingRule) httpv1alpha1.Rule {
	var rule httpv1alpha1.Rule
	for _, host := range from.Hosts {
		rule.Hosts = append(rule.Hosts, cmp.Or(host, anyHost))
	}
	for _, path := range from.Paths {
		rule.PathPrefixes = append(rule.PathPrefixes, "/"+strings.TrimLeft(path.Value, "/"))
	}
	for _, header := range from.Headers {
		rule.Headers = append(rule.Headers, httpv1alpha1.Header{Name: header.Name, Value: header.Value})
	}
	return rule
}

// scalingMetricOf converts the metrics. The defaults are those of an HTTPScaledObject.
func scalingMetricOf(from httpv1beta1.ScalingMetricSpec) *httpv1alpha1.ScalingMetric {
	metric := &httpv1alpha1.ScalingMetric{}
	if from.Concurrency != nil {
		metric.Concurrency = &httpv1alpha1.ConcurrencyMetric{TargetValue: int(from.Concurrency.TargetValue)}
	}
	if rate := from.RequestRate; rate != nil {
		metric.RequestRate = &httpv1alpha1.RequestRateMetric{TargetValue: int(rate.TargetValue)}
		if rate.Window != (metav1.Duration{}) {
			metric.RequestRate.Window = &rate.Window
		}
		if rate.Granularity != (metav1.Duration{}) {
			metric.RequestRate.Granularity = &rate.Granularity
		}
	}
	return metric
}

// setTimeouts sets the timeouts and the failover. In the KEDA HTTP add-on, timeouts.request includes the time that a
// request waits for the target, so it limits timeouts.readiness: 0s, or no value, leaves all of it.
func setTimeouts(spec *httpv1alpha1.HTTPScaledObjectSpec, from httpv1beta1.InterceptorRouteSpec) {
	request, readiness := from.Timeouts.Request, from.Timeouts.Readiness
	spec.Converted.RequestTimeout = request
	limit := func(wait time.Duration) time.Duration {
		if request != nil && request.Duration > 0 && (wait <= 0 || wait > request.Duration) {
			return request.Duration
		}
		return wait
	}
	var wait time.Duration
	if readiness != nil {
		wait = readiness.Duration
	}
	if limited := limit(wait); readiness != nil || limited > 0 {
		readiness = &metav1.Duration{Duration: limited}
	}
	if readiness != nil || from.Timeouts.ResponseHeader != nil {
		spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: readiness, ResponseHeader: from.Timeouts.ResponseHeader}
	}
	if from.ColdStart == nil || from.ColdStart.Fallback == nil || from.ColdStart.Fallback.Service == nil {
		return
	}
	fallback := from.ColdStart.Fallback.Service
	spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{
		Service: fallback.Name, Port: fallback.Port, PortName: fallback.PortName,
	}
	if wait <= 0 {
		wait = httpv1beta1.DefaultFallbackReadiness
	}
	spec.Converted.FailoverTimeout.Duration = limit(wait)
}
