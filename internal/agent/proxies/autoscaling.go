package proxies

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

const (
	// defaultCPUTarget is the average CPU usage of a proxy above which KEDA adds proxies, in millicores: one of
	// the two cores for which each proxy has workers.
	defaultCPUTarget = 1000
	// cpuTargetPercent bounds the target to a percentage of the CPU limit, because usage never exceeds the limit.
	cpuTargetPercent = 75
)

// autoscaler returns the ScaledObject of the proxies of a namespace, nil if KEDA does not scale them.
//
// When it is deleted, KEDA restores the Deployment's previous number of replicas, which is the configured one.
func (s Settings) autoscaler(namespace string) *unstructured.Unstructured {
	if s.MaxReplicas == 0 {
		return nil
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
		"metadata": map[string]any{
			"name": Service, "namespace": namespace,
			"labels": map[string]any{"app": Service, httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
		},
		"spec": map[string]any{
			"scaleTargetRef":  map[string]any{"name": Service},
			"minReplicaCount": int64(max(1, s.Replicas)),
			"maxReplicaCount": int64(s.MaxReplicas),
			"advanced":        map[string]any{"restoreToOriginalReplicaCount": true},
			"triggers":        s.triggers(),
		},
	}}
}

// triggers returns the triggers of the ScaledObject. KEDA uses the one that requests more proxies.
func (s Settings) triggers() []any {
	triggers := []any{map[string]any{
		"type": "cpu", "metricType": "AverageValue", "metadata": map[string]any{"value": s.cpuTarget()},
	}}
	if s.TargetConnections > 0 {
		triggers = append(triggers, map[string]any{
			"type": trigger.TypePull, "metricType": "AverageValue", "metadata": map[string]any{
				trigger.KeyScalerAddress:    s.ScalerAddress,
				trigger.KeyProxyConnections: strconv.Itoa(int(s.TargetConnections)),
			},
		})
	}
	return triggers
}

// cpuTarget returns the average CPU usage of a proxy above which KEDA adds proxies.
func (s Settings) cpuTarget() string {
	target := int64(defaultCPUTarget)
	if s.Resources != nil {
		if limit, has := s.Resources.Limits[corev1.ResourceCPU]; has {
			target = max(1, min(target, limit.MilliValue()*cpuTargetPercent/100))
		}
	}
	return resource.NewMilliQuantity(target, resource.DecimalSI).String()
}

// planAutoscaler adds the change of the ScaledObject. current is the existing one of its name, or nil. One that the
// agent does not manage stays unchanged.
func (p *Plan) planAutoscaler(wanted, current *unstructured.Unstructured) error {
	isManaged := current != nil && current.GetLabels()[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	switch {
	case wanted != nil && current != nil && !isManaged:
		if p.Condition == nil {
			p.Condition = &metav1.Condition{
				Type: httpv1alpha1.ConditionProxyInstalled, Status: metav1.ConditionFalse, Reason: httpv1alpha1.ReasonNameInUse,
				Message: fmt.Sprintf("ScaledObject %s is not managed by the agent and scales the proxies instead; "+
					"delete it, or remove the maximum number of proxies",
					Service),
			}
		}
	case wanted != nil:
		return p.apply(wanted, current, Settings{})
	case isManaged && current.GetDeletionTimestamp() == nil:
		p.Delete = append(p.Delete, current)
	}
	return nil
}
