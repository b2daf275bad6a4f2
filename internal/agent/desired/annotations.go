package desired

import (
	"strings"
	"unicode"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// annotationKeys returns the trigger keys that the agent stores in annotations: an HTTPScaledObject's spec has no field
// for them, or also contains values of users, so that the annotation shows whose value it is.
func annotationKeys() []string {
	return []string{
		trigger.KeyFallbackService, trigger.KeyExternalProxyMetricKey, trigger.KeyExternalProxySources,
		trigger.KeyTrafficAutowire,
		trigger.KeyHealthcheckPath, trigger.KeyHealthcheckResponse, trigger.KeyTLSSecretName,
		trigger.KeyWaitingPageEnabled, trigger.KeyWaitingPageConfigMap, trigger.KeySessionAffinity,
		trigger.KeyStaticResponses, trigger.KeyPlaceholderResponse,
		trigger.KeyConditionWaitTimeout, trigger.KeyResponseHeaderTimeout,
		trigger.KeyRequestTimeout, trigger.KeyIdleTimeout,
	}
}

// annotations returns the agent's annotations of an HTTPScaledObject: trigger keys without a spec field, KEDA's
// pausing annotations so that no request waits for a paused workload, and the annotation that prevents the
// operator of the KEDA HTTP add-on from creating a second ScaledObject.
func annotations(scaled *apis.ScaledObject, metadata map[string]string) map[string]string {
	out := map[string]string{httpv1alpha1.AnnotationSkipScaledObjectCreation: "true"}
	for _, name := range httpv1alpha1.PausingAnnotations() {
		if value, ok := scaled.Annotations[name]; ok {
			out[name] = value
		}
	}
	for _, key := range annotationKeys() {
		if value := strings.TrimSpace(metadata[key]); value != "" {
			out[annotationName(key)] = value
		}
	}
	return out
}

// ownAnnotations returns the names of all annotations of the agent's part of an object: those that annotations may
// return, and that of an unrouted object.
func ownAnnotations() []string {
	out := append(httpv1alpha1.PausingAnnotations(), httpv1alpha1.AnnotationSkipScaledObjectCreation,
		httpv1alpha1.AnnotationAutowireService, httpv1alpha1.AnnotationRouting)
	for _, key := range annotationKeys() {
		out = append(out, annotationName(key))
	}
	return out
}

// ReadAnnotations returns the names of all annotations of an HTTPScaledObject that the agent reads.
func ReadAnnotations() []string {
	return append(ownAnnotations(), httpv1alpha1.AnnotationFleet, httpv1alpha1.AnnotationAutowireSettings,
		httpv1alpha1.AnnotationStatus, httpv1alpha1.AnnotationWeightedBackends)
}

// annotationName returns the annotation for a trigger key.
func annotationName(key string) string {
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
