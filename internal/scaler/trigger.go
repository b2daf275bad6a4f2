package scaler

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// errTrigger is in the chain of each mistake in a trigger's metadata.
var errTrigger = errors.New("the trigger's metadata cannot be used")

// asked is what one trigger asks for.
type asked struct {
	trigger.Trigger

	object types.NamespacedName
}

// metric is the metric's name in the HorizontalPodAutoscaler, where KEDA puts the index of the
// trigger before it.
func (a asked) metric() string {
	if a.Metric == trigger.MetricConcurrency {
		return "http-concurrency"
	}
	return "http-request-rate"
}

// value is the trigger's metric of a figure.
func (a asked) value(f Figure) float64 {
	if a.Metric == trigger.MetricConcurrency {
		return f.Concurrency
	}
	return f.RequestRate
}

// parse reads a trigger, as far as the scaler goes by it: what is counted for the metric, window and
// granularity among it, is said by the HTTPScaledObject. The namespace is that of the ScaledObject,
// whatever the metadata says, so that nobody can ask for another tenant's figures.
func parse(ref *externalscaler.ScaledObjectRef) (asked, error) {
	metadata := ref.GetScalerMetadata()
	name := trigger.ObjectName(metadata, ref.GetName())
	if ref.GetNamespace() == "" || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return asked{}, fmt.Errorf("%w: %s: %q is not the name of an object",
			errTrigger, trigger.KeyHTTPScaledObject, name)
	}
	parsed, problems := trigger.ParseScaling(metadata)
	var failed error
	for _, problem := range problems {
		failed = errors.Join(failed, fmt.Errorf("%w: %s", errTrigger, problem))
	}
	return asked{parsed, types.NamespacedName{Namespace: ref.GetNamespace(), Name: name}}, failed
}
