package scaler

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// errTrigger is in the chain of every validation error of a trigger's metadata.
var errTrigger = errors.New("invalid trigger metadata")

// query is one trigger with the HTTPScaledObject that it refers to.
type query struct {
	trigger.Trigger

	object types.NamespacedName
}

// metric returns the name of the metric. In the HorizontalPodAutoscaler, KEDA prefixes it with the index of the
// trigger.
func (q query) metric() string {
	if q.Metric == trigger.MetricConcurrency {
		return "http-concurrency"
	}
	return "http-request-rate"
}

// value returns the trigger's metric of a demand.
func (q query) value(demand metrics.Value) float64 {
	if q.Metric == trigger.MetricConcurrency {
		return demand.Concurrency
	}
	return demand.RequestRate
}

// keepsActive reports whether requests in flight keep the workload active, whatever their rate. A stream (WebSocket,
// server-sent events, a long download) adds to the request rate only when it starts, and scaling to zero would end it.
// The activation value of a rate doesn't apply to them. That of a trigger for concurrency does: it counts the same
// requests.
func (q query) keepsActive(demand metrics.Value) bool {
	return q.Metric == trigger.MetricRequestRate && demand.Concurrency > 0
}

// parse reads the keys of a trigger that the scaler uses. The HTTPScaledObject sets how the metric is counted, such as
// its window and granularity. The namespace is always that of the ScaledObject, whatever the metadata contains, so that
// a tenant cannot read the demand of another one.
func parse(ref *externalscaler.ScaledObjectRef) (query, error) {
	metadata := ref.GetScalerMetadata()
	name := trigger.ObjectName(metadata, ref.GetName())
	if len(validation.IsDNS1123Label(ref.GetNamespace())) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return query{}, fmt.Errorf("%w: %s: %q is not a valid object name", errTrigger, trigger.KeyHTTPScaledObject, name)
	}
	parsed, problems := trigger.ParseScaling(metadata)
	var err error
	for _, problem := range problems {
		err = errors.Join(err, fmt.Errorf("%w: %s", errTrigger, problem))
	}
	return query{parsed, types.NamespacedName{Namespace: ref.GetNamespace(), Name: name}}, err
}
