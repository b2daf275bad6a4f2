package trigger

import httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"

// NeedsProxy reports whether an HTTPScaledObject needs proxies that the agent installs. Those that the agent created do,
// regardless of how their requests reach the proxies. Others do if they request autowiring: an HTTPScaledObject of the
// KEDA HTTP add-on in the same cluster needs no Envoy. Unrouted objects need none.
func NeedsProxy(object *httpv1alpha1.HTTPScaledObject) bool {
	if httpv1alpha1.IsUnrouted(object) {
		return false
	}
	if object.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent {
		return true
	}
	value, hasAnnotation := object.Annotations[httpv1alpha1.AnnotationTrafficAutowire]
	if !hasAnnotation {
		return false
	}
	// The valid entries of an invalid list count.
	parsed, _ := Parse(map[string]string{KeyTrafficAutowire: value})
	return len(parsed.Autowire) > 0
}
