package status_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
)

// TestScalingFieldsApplied lists specs with fields that no component applies.
func TestScalingFieldsApplied(t *testing.T) {
	t.Parallel()
	const (
		begin = "KEDA scales by the ScaledObject, and no component applies "
		end   = " instead, and remove this field. The operator of the KEDA HTTP add-on applies them to a ScaledObject that it " +
			"has made."
		next = " instead, and remove this field; "
	)
	for name, c := range map[string]struct {
		spec httpv1alpha1.HTTPScaledObjectSpec
		want string // the message; "" for no condition
	}{
		"none": {},
		"a minimum, and the defaults of the schema": {spec: httpv1alpha1.HTTPScaledObjectSpec{
			Replicas:      &httpv1alpha1.ReplicaRange{Min: new(int32(1))},
			ScalingMetric: &httpv1alpha1.ScalingMetric{Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: 100}},
		}},
		"those of the agent": {spec: httpv1alpha1.HTTPScaledObjectSpec{
			Replicas:        &httpv1alpha1.ReplicaRange{Min: new(int32(1)), Max: new(int32(9))},
			ScalingMetric:   &httpv1alpha1.ScalingMetric{RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: 5}},
			HasScaledObject: true,
		}},
		"those of an InterceptorRoute": {spec: httpv1alpha1.HTTPScaledObjectSpec{
			ScalingMetric: &httpv1alpha1.ScalingMetric{RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: 5}},
			Converted:     &httpv1alpha1.ConvertedSpec{},
		}},
		"a user's in an object of the agent": {
			httpv1alpha1.HTTPScaledObjectSpec{ScaledownPeriod: new(int32(7)), HasScaledObject: true},
			begin + "spec.scaledownPeriod: set cooldownPeriod of the ScaledObject" + end,
		},
		"all": {
			httpv1alpha1.HTTPScaledObjectSpec{
				Replicas: &httpv1alpha1.ReplicaRange{Max: new(int32(9))}, ScaledownPeriod: new(int32(7)),
				InitialCooldownPeriod: new(int32(0)), TargetPendingRequests: new(int32(5)),
				ScalingMetric: &httpv1alpha1.ScalingMetric{RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: 5}},
			},
			begin + "spec.replicas.max: set maxReplicaCount of the ScaledObject" + next +
				"spec.scaledownPeriod: set cooldownPeriod of the ScaledObject" + next +
				"spec.initialCooldownPeriod: set initialCooldownPeriod of the ScaledObject" + next +
				"spec.targetPendingRequests: set scalingMetric: concurrency and targetValue of the trigger" + next +
				"spec.scalingMetric.requestRate.targetValue: set targetValue of the trigger" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := shop()
			object.Spec = c.spec
			object.Status = status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "a", noon())
			got := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionScalingFieldsApplied)
			switch {
			case c.want == "" && got != nil:
				t.Errorf("condition %+v", got)
			case c.want != "" && (got == nil || got.Status != "False" || got.Message != c.want):
				t.Errorf("condition %+v, want %s", got, c.want)
			}
			object.Spec = httpv1alpha1.HTTPScaledObjectSpec{}
			after := status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "a", noon())
			if got := meta.FindStatusCondition(after.Conditions, httpv1alpha1.ConditionScalingFieldsApplied); (got != nil) !=
				(c.want != "") || got != nil && got.Status != "True" {
				t.Errorf("without the fields: %+v", got)
			}
		})
	}
}
