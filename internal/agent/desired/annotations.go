package desired

import (
	"strings"
	"unicode"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// carried are the keys of a trigger that an HTTPScaledObject's spec has no field for.
func carried() []string {
	return []string{
		trigger.KeyFallbackService, trigger.KeyExternalProxyMetricKey, trigger.KeyTrafficAutowire,
		trigger.KeyHealthcheckPath, trigger.KeyHealthcheckResponse, trigger.KeyTLSSecretName,
		trigger.KeyWaitingPageEnabled, trigger.KeyWaitingPageConfigMap,
	}
}

// annotations are those that the agent gives to an HTTPScaledObject: what travels in annotations, what
// pauses the ScaledObject's autoscaling, so that nobody waits for it, and the one that keeps the operator of the
// KEDA HTTP add-on from making a second ScaledObject.
func annotations(scaled *apis.ScaledObject, metadata map[string]string) map[string]string {
	out := map[string]string{httpv1alpha1.AnnotationSkipScaledObjectCreation: "true"}
	for _, name := range httpv1alpha1.PausingAnnotations() {
		if value, is := scaled.Annotations[name]; is {
			out[name] = value
		}
	}
	for _, key := range carried() {
		if value := strings.TrimSpace(metadata[key]); value != "" {
			out[annotationOf(key)] = value
		}
	}
	return out
}

// ownAnnotations are all that annotations may return.
func ownAnnotations() []string {
	out := append(httpv1alpha1.PausingAnnotations(), httpv1alpha1.AnnotationSkipScaledObjectCreation)
	for _, key := range carried() {
		out = append(out, annotationOf(key))
	}
	return out
}

// annotationOf is the annotation that carries a key of a trigger.
func annotationOf(key string) string {
	var kebab strings.Builder
	for _, letter := range key {
		if unicode.IsUpper(letter) {
			kebab.WriteByte('-')
			letter = unicode.ToLower(letter)
		}
		kebab.WriteRune(letter)
	}
	return httpv1alpha1.AnnotationPrefix + kebab.String()
}
