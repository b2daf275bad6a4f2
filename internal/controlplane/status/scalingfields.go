package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// scalingFields returns the condition that the spec contains no field about scaling that no component applies. KEDA
// scales the workload by the ScaledObject, which neither the interceptor nor the scaler may change. Of an object that the
// agent has made, the fields with values of the ScaledObject are no error.
func scalingFields(object *httpv1alpha1.HTTPScaledObject) metav1.Condition {
	const kind = httpv1alpha1.ConditionScalingFieldsApplied
	spec := object.Spec
	var texts []string
	add := func(isSet bool, field, instead string) {
		if isSet {
			texts = append(texts, fmt.Sprintf("spec.%s: set %s instead, and remove this field", field, instead))
		}
	}
	add(!spec.HasScaledObject && spec.Replicas != nil && spec.Replicas.Max != nil, "replicas.max",
		"maxReplicaCount of the ScaledObject")
	add(spec.ScaledownPeriod != nil, "scaledownPeriod", "cooldownPeriod of the ScaledObject")
	add(spec.InitialCooldownPeriod != nil, "initialCooldownPeriod", "initialCooldownPeriod of the ScaledObject")
	add(spec.TargetPendingRequests != nil, "targetPendingRequests",
		"scalingMetric: concurrency and targetValue of the trigger")
	// A trigger that names an InterceptorRoute has the targets of that.
	if metric := spec.ScalingMetric; metric != nil && !spec.HasScaledObject && spec.Converted == nil {
		add(metric.Concurrency != nil && isOwnTarget(metric.Concurrency.TargetValue),
			"scalingMetric.concurrency.targetValue", "targetValue of the trigger")
		add(metric.RequestRate != nil && isOwnTarget(metric.RequestRate.TargetValue),
			"scalingMetric.requestRate.targetValue", "targetValue of the trigger")
	}
	if len(texts) > 0 {
		return unmet(kind, httpv1alpha1.ReasonFieldsNotApplied, "KEDA scales by the ScaledObject, and no component applies "+
			strings.Join(texts, "; ")+". The operator of the KEDA HTTP add-on applies them to a ScaledObject that it has made.")
	}
	return met(kind, httpv1alpha1.ReasonScalingFieldsApplied, "Every field of the spec is applied.")
}

// isOwnTarget reports whether a target value is neither missing nor the default of the schema, which the API server
// adds.
func isOwnTarget(value int) bool { return value != 0 && value != metrics.DefaultTarget }
