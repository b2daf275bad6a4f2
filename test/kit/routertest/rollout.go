package routertest

import (
	"encoding/json"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Mark is the owner mark of the Rollout that Rollout returns.
const Mark = "shop/web uid-of-web"

// Rollout returns the canary Rollout shop/web with the Services web-stable and web-canary, and config at the plugin's
// name; no plugin if config is empty.
func Rollout(plugin, config string) *v1alpha1.Rollout {
	routing := &v1alpha1.RolloutTrafficRouting{}
	if config != "" {
		routing.Plugins = map[string]json.RawMessage{plugin: json.RawMessage(config)}
	}
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService:  "web-stable",
			CanaryService:  "web-canary",
			TrafficRouting: routing,
		}}},
	}
}

// ScaledObject returns the HTTPScaledObject shop/web for the Service web-stable, with these annotations.
func ScaledObject(annotations map[string]string) *httpv1alpha1.HTTPScaledObject {
	return &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{"shop.test"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "web-stable", Port: 80},
		},
	}
}
