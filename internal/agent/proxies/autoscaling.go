package proxies

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// usualLoad is the use of processors of one proxy above which there are to be more, in thousandths of a processor: one of the
	// two that each proxy has workers for.
	usualLoad = 1000
	// loadShare is the share, in percent, of a limit of processors that it is at most: above the limit nothing can be measured.
	loadShare = 75
)

// autoscaler is the ScaledObject of the proxies of a namespace, nil where they are not to be scaled.
//
// On its deletion KEDA gives the Deployment the number of replicas that it had before: what was asked for.
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
			"triggers": []any{map[string]any{
				"type": "cpu", "metricType": "AverageValue", "metadata": map[string]any{"value": s.load()},
			}},
		},
	}}
}

// load is the use of processors of one proxy above which there are to be more.
func (s Settings) load() string {
	load := int64(usualLoad)
	if s.Resources != nil {
		if limit, has := s.Resources.Limits[corev1.ResourceCPU]; has {
			load = max(1, min(load, limit.MilliValue()*loadShare/100))
		}
	}
	return resource.NewMilliQuantity(load, resource.DecimalSI).String()
}

// scale adds what is to be done about the ScaledObject. found is the one of its name, or nil. One of somebody else's is left alone.
func (p *Plan) scale(wanted, found *unstructured.Unstructured) error {
	isOurs := found != nil && found.GetLabels()[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	switch {
	case wanted != nil && found != nil && !isOurs:
		if p.Condition == nil {
			p.Condition = &metav1.Condition{
				Type: httpv1alpha1.ConditionProxyInstalled, Status: metav1.ConditionFalse, Reason: httpv1alpha1.ReasonNameTaken,
				Message: fmt.Sprintf("ScaledObject %s is not the agent's, so the proxies are scaled as whoever made it says; delete it, or ask for no highest number of proxies",
					Service),
			}
		}
	case wanted != nil:
		return p.apply(wanted, found, Settings{})
	case isOurs && found.GetDeletionTimestamp() == nil:
		p.Delete = append(p.Delete, found)
	}
	return nil
}
