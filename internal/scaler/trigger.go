package scaler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// The keys of a trigger's metadata that this package reads. All others are for other parts: what is
// counted for the metric, window and granularity among it, is said by the HTTPScaledObject.
const (
	// KeyObject names the HTTPScaledObject; absent, it has the name of the ScaledObject.
	KeyObject = "httpScaledObject"
	// KeyMetric is MetricRequestRate, the default, or MetricConcurrency.
	KeyMetric = "scalingMetric"
	// KeyTarget is how much of the metric a replica should have; 100 by default.
	KeyTarget = "targetValue"
	// KeyActivation is what the metric has to exceed for a workload to leave zero; 0 by default.
	KeyActivation = "activationTargetValue"
)

// The values of KeyMetric.
const (
	MetricRequestRate = "requestRate"
	MetricConcurrency = "concurrency"
)

// defaultTarget is the target of a trigger that names none.
const defaultTarget = 100

// KEDA reckons in thousandths, as 64-bit integers (pkg/scalers/scaler.go, GetMetricTargetMili): a
// target below the least of them would be zero.
const (
	leastTarget = 0.001
	mostTarget  = 1e12
)

// errTrigger is in the chain of each mistake in a trigger's metadata.
var errTrigger = errors.New("the trigger's metadata cannot be used")

// trigger is what one trigger asks for.
type trigger struct {
	object      types.NamespacedName
	concurrency bool
	target      float64
	activation  float64
}

// metric is the metric's name in the HorizontalPodAutoscaler, where KEDA puts the index of the
// trigger before it.
func (t trigger) metric() string {
	if t.concurrency {
		return "http-concurrency"
	}
	return "http-request-rate"
}

// value is the trigger's metric of a figure.
func (t trigger) value(f Figure) float64 {
	if t.concurrency {
		return f.Concurrency
	}
	return f.RequestRate
}

// parse reads a trigger. The namespace is that of the ScaledObject, whatever the metadata says, so
// that nobody can ask for another tenant's figures.
func parse(ref *externalscaler.ScaledObjectRef) (trigger, error) {
	metadata := given(ref.GetScalerMetadata())
	t := trigger{object: types.NamespacedName{Namespace: ref.GetNamespace(), Name: ref.GetName()}}
	if name, is := metadata[KeyObject]; is {
		t.object.Name = name
	}
	if t.object.Namespace == "" || len(validation.IsDNS1123Subdomain(t.object.Name)) > 0 {
		return t, fmt.Errorf("%w: %s: %q is not the name of an object",
			errTrigger, KeyObject, t.object.Name)
	}
	switch metric, is := metadata[KeyMetric]; {
	case metric == MetricConcurrency:
		t.concurrency = true
	case is && metric != MetricRequestRate:
		return t, fmt.Errorf("%w: %s: %q, use %s or %s",
			errTrigger, KeyMetric, metric, MetricRequestRate, MetricConcurrency)
	}
	var errTarget, errActivation error
	t.target, errTarget = number(metadata, KeyTarget, defaultTarget, leastTarget)
	t.activation, errActivation = number(metadata, KeyActivation, 0, 0)
	return t, errors.Join(errTarget, errActivation)
}

// given are the keys that have a value: one without is one that is not there, as the agent has it.
func given(metadata map[string]string) map[string]string {
	out := make(map[string]string, len(metadata))
	for key, value := range metadata {
		if value = strings.TrimSpace(value); value != "" {
			out[key] = value
		}
	}
	return out
}

// number reads a number from least to mostTarget.
func number(metadata map[string]string, key string, otherwise, least float64) (float64, error) {
	text, is := metadata[key]
	if !is {
		return otherwise, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || value < least || value > mostTarget {
		return 0, fmt.Errorf("%w: %s: %q, use a number from %g to %g",
			errTrigger, key, text, least, mostTarget)
	}
	return value, nil
}
