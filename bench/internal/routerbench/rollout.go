package routerbench

import (
	"encoding/json"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace is the namespace of the Rollouts and their objects.
const Namespace = "shop"

// NewRollout returns a promoted Rollout of typical size, as the controller sends it, with config for router. Its
// Services are named after it, with the suffixes -stable and -canary.
func NewRollout(name, router string, config json.RawMessage) *v1alpha1.Rollout {
	replicas := int32(5)
	steps := make([]v1alpha1.CanaryStep, 0, 8)
	for _, weight := range []int32{20, 40, 60, 80} {
		steps = append(steps,
			v1alpha1.CanaryStep{SetWeight: &weight}, v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}})
	}
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, Labels: map[string]string{"app": name},
			UID: types.UID("6f1c2c5e-0000-4000-8000-" + name),
		},
		Spec: v1alpha1.RolloutSpec{
			Replicas: &replicas,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "web", Image: "registry.test/shop/web:v2",
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env:   []corev1.EnvVar{{Name: "STAGE", Value: "production"}, {Name: "REGION", Value: "eu-1"}},
			}}}},
			Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
				StableService: name + "-stable", CanaryService: name + "-canary", Steps: steps,
				TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{router: config}},
			}},
		},
		Status: v1alpha1.RolloutStatus{CurrentPodHash: hash, StableRS: hash},
	}
}
