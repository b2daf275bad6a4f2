package v1alpha1

import "strconv"

// KEDA's annotations that pause the autoscaling of a workload
// (https://keda.sh/docs/2.19/concepts/scaling-deployments/#pausing-autoscaling). Users set them on a ScaledObject;
// the agent copies them to its HTTPScaledObjects.
const (
	// AnnotationPaused pauses autoscaling at the current number of replicas. Any value except a false one enables
	// it.
	AnnotationPaused = "autoscaling.keda.sh/paused"
	// AnnotationPausedReplicas pauses autoscaling at a number of replicas.
	AnnotationPausedReplicas = "autoscaling.keda.sh/paused-replicas"
	// AnnotationPausedScaleOut disables scaling out.
	AnnotationPausedScaleOut = "autoscaling.keda.sh/paused-scale-out"
)

// Annotations about requests while the workload is scaled to zero.
const (
	// AnnotationHealthcheckPath is the path of external health checks.
	AnnotationHealthcheckPath = AnnotationPrefix + "healthcheck-path"
	// AnnotationHealthcheckResponse selects what answers health checks: HealthcheckStatic, or the application,
	// which they wake.
	AnnotationHealthcheckResponse = AnnotationPrefix + "healthcheck-response"
	// HealthcheckStatic is the value of AnnotationHealthcheckResponse for a static answer that does not wake the
	// workload.
	HealthcheckStatic = "static"
	// AnnotationWaitingPage is "true" if browsers receive a waiting page.
	AnnotationWaitingPage = AnnotationPrefix + "cold-start-waiting-page-enabled"
	// AnnotationWaitingPageConfigMap is the ConfigMap, in the object's namespace, with the waiting page. The
	// interceptor has a default page. Package internal/controlplane/holding/page reads the ConfigMap.
	AnnotationWaitingPageConfigMap = AnnotationPrefix + "cold-start-waiting-page-config-map-ref"
)

// ZeroAnnotations returns all annotations about requests while the workload is scaled to zero.
func ZeroAnnotations() []string {
	return append(PausingAnnotations(), AnnotationHealthcheckPath, AnnotationHealthcheckResponse,
		AnnotationWaitingPage, AnnotationWaitingPageConfigMap)
}

// StaticHealthcheck returns the path of health checks that do not wake the workload, "" for none.
func StaticHealthcheck(object *HTTPScaledObject) string {
	if object.Annotations[AnnotationHealthcheckResponse] != HealthcheckStatic {
		return ""
	}
	return object.Annotations[AnnotationHealthcheckPath]
}

// HasWaitingPage reports whether browsers receive a waiting page.
func HasWaitingPage(object *HTTPScaledObject) bool {
	enabled, err := strconv.ParseBool(object.Annotations[AnnotationWaitingPage])
	return err == nil && enabled
}

// WaitingPageConfigMap returns the name of the ConfigMap with the waiting page, "" if the object has no page or
// uses the default one.
func WaitingPageConfigMap(object *HTTPScaledObject) string {
	if !HasWaitingPage(object) {
		return ""
	}
	return object.Annotations[AnnotationWaitingPageConfigMap]
}

// PausingAnnotations returns all of KEDA's annotations that pause autoscaling.
func PausingAnnotations() []string {
	return []string{AnnotationPaused, AnnotationPausedReplicas, AnnotationPausedScaleOut}
}

// IsPausedAtZero reports whether a workload that is scaled to zero will stay there.
func IsPausedAtZero(object *HTTPScaledObject) bool {
	if text, ok := object.Annotations[AnnotationPausedReplicas]; ok {
		replicas, err := strconv.Atoi(text)
		return err == nil && replicas == 0
	}
	return isSet(object, AnnotationPaused) || isSet(object, AnnotationPausedScaleOut)
}

// isSet reads a boolean annotation as KEDA does: an invalid value counts as true.
func isSet(object *HTTPScaledObject, name string) bool {
	text, ok := object.Annotations[name]
	value, err := strconv.ParseBool(text)
	return ok && (value || err != nil)
}
