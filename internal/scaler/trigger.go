package scaler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// errTrigger is in the chain of every validation error of a trigger's metadata.
var errTrigger = errors.New("invalid trigger metadata")

// query is one trigger with the HTTPScaledObject or InterceptorRoute that it refers to.
type query struct {
	trigger.Trigger

	object types.NamespacedName
	// isOfRoute is true if the trigger names an InterceptorRoute, which then defines the metrics.
	isOfRoute bool
	// connections is the target of a trigger that scales the proxies of its namespace, 0 for any other trigger.
	connections int
}

// metricConnections is the metric of the proxies: connections with clients.
const metricConnections trigger.Metric = "connections"

// target is a metric that a workload scales by, and its value per replica.
type target struct {
	metric trigger.Metric
	value  float64
}

// targets returns the metrics of the trigger. Those of an InterceptorRoute are part of the demand for it; there are none
// while that is unknown.
func (q query) targets(demand metrics.Value) []target {
	if q.connections > 0 {
		return []target{{metricConnections, float64(q.connections)}}
	}
	if !q.isOfRoute {
		return []target{{q.Metric, float64(q.TargetValue)}}
	}
	var targets []target
	if demand.Metric != "" {
		targets = []target{{trigger.Metric(demand.Metric), float64(demand.Target)}}
	}
	if demand.RateTarget > 0 {
		targets = append(targets, target{trigger.MetricRequestRate, float64(demand.RateTarget)})
	}
	return targets
}

// name returns the name of the metric. In the HorizontalPodAutoscaler, KEDA prefixes it with the index of the trigger.
func (t target) name() string {
	switch t.metric {
	case metricConnections:
		return "http-proxy-connections"
	case trigger.MetricConcurrency:
		return "http-concurrency"
	default:
		return "http-request-rate"
	}
}

// valueOf returns the metric in a demand. The error is set if only the request rate is unknown.
func (t target) valueOf(demand metrics.Value) (float64, error) {
	if t.metric == trigger.MetricRequestRate {
		return demand.RequestRate, demand.RateError
	}
	return demand.Concurrency, nil
}

// isActive reports whether a demand is above the activation value. Requests in flight keep the workload active, whatever
// their rate: a stream (WebSocket, server-sent events, a long download) adds to the request rate only when it starts, and
// scaling to zero would end it. The activation value of a rate doesn't apply to them. That of concurrency does: it counts
// the same requests.
func (t target) isActive(demand metrics.Value, activation float64) bool {
	value, _ := t.valueOf(demand)
	return value > activation || t.metric == trigger.MetricRequestRate && demand.Concurrency > 0
}

// parse reads the keys of a trigger that the scaler uses: of one with an InterceptorRoute, only its name. The object sets how the metric is counted, such as
// its window and granularity. The namespace is always that of the ScaledObject, whatever the metadata contains, so that
// a tenant cannot read the demand of another one.
func parse(ref *externalscaler.ScaledObjectRef) (query, error) {
	metadata := ref.GetScalerMetadata()
	if text := strings.TrimSpace(metadata[trigger.KeyProxyConnections]); text != "" {
		return parseConnections(ref.GetNamespace(), text)
	}
	key, name := trigger.KeyHTTPScaledObject, trigger.ObjectName(metadata, ref.GetName())
	isOfRoute := trigger.IsOfInterceptorRoute(metadata)
	if isOfRoute {
		key, name = trigger.KeyInterceptorRoute, strings.TrimSpace(metadata[trigger.KeyInterceptorRoute])
	}
	if len(validation.IsDNS1123Label(ref.GetNamespace())) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return query{}, fmt.Errorf("%w: %s: %q is not a valid object name", errTrigger, key, name)
	}
	parsed := query{object: types.NamespacedName{Namespace: ref.GetNamespace(), Name: name}, isOfRoute: isOfRoute}
	if isOfRoute {
		return parsed, nil
	}
	var problems []trigger.Problem
	var err error
	parsed.Trigger, problems = trigger.ParseScaling(metadata)
	for _, problem := range problems {
		err = errors.Join(err, fmt.Errorf("%w: %s", errTrigger, problem))
	}
	return parsed, err
}

// parseConnections parses the target of a trigger that scales the proxies of a namespace.
func parseConnections(namespace, text string) (query, error) {
	connections, err := strconv.Atoi(text)
	if err != nil || connections < 1 || len(validation.IsDNS1123Label(namespace)) > 0 {
		return query{}, fmt.Errorf("%w: %s: %.80q is not a whole number above 0", errTrigger, trigger.KeyProxyConnections, text)
	}
	return query{object: types.NamespacedName{Namespace: namespace}, connections: connections}, nil
}
