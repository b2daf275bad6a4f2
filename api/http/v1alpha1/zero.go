package v1alpha1

import "strconv"

// KEDA's annotations by which the autoscaling of a workload is paused
// (https://keda.sh/docs/2.19/concepts/scaling-deployments/#pausing-autoscaling). They stand on a ScaledObject;
// the agent repeats them on its HTTPScaledObjects.
const (
	// AnnotationPaused pauses it as it is: any value but a false one does.
	AnnotationPaused = "autoscaling.keda.sh/paused"
	// AnnotationPausedReplicas pauses it at a number of replicas.
	AnnotationPausedReplicas = "autoscaling.keda.sh/paused-replicas"
	// AnnotationPausedScaleOut lets it shrink only.
	AnnotationPausedScaleOut = "autoscaling.keda.sh/paused-scale-out"
)

// Annotations that say what becomes of requests while the workload has no replica.
const (
	// AnnotationHealthcheckPath is the path of health checks from outside.
	AnnotationHealthcheckPath = AnnotationPrefix + "healthcheck-path"
	// AnnotationHealthcheckResponse says who answers them: HealthcheckStatic, or the application, which they wake.
	AnnotationHealthcheckResponse = AnnotationPrefix + "healthcheck-response"
	// HealthcheckStatic is the value of AnnotationHealthcheckResponse for an answer that wakes nothing.
	HealthcheckStatic = "static"
	// AnnotationWaitingPage is "true" where a browser gets a page that waits in its place.
	AnnotationWaitingPage = AnnotationPrefix + "cold-start-waiting-page-enabled"
	// AnnotationWaitingPageConfigMap names the ConfigMap of the object's namespace that has the page. Without it
	// there is a page of the interceptor's own. Package internal/controlplane/holding/page reads the ConfigMap.
	AnnotationWaitingPageConfigMap = AnnotationPrefix + "cold-start-waiting-page-config-map-ref"
)

// ZeroAnnotations are all annotations that matter to requests while the workload has no replica.
func ZeroAnnotations() []string {
	return append(PausingAnnotations(), AnnotationHealthcheckPath, AnnotationHealthcheckResponse,
		AnnotationWaitingPage, AnnotationWaitingPageConfigMap)
}

// StaticHealthcheck is the path of health checks that wake nothing, "" for none.
func StaticHealthcheck(object *HTTPScaledObject) string {
	if object.Annotations[AnnotationHealthcheckResponse] != HealthcheckStatic {
		return ""
	}
	return object.Annotations[AnnotationHealthcheckPath]
}

// HasWaitingPage says that a browser gets a page that waits in its place.
func HasWaitingPage(object *HTTPScaledObject) bool {
	enabled, err := strconv.ParseBool(object.Annotations[AnnotationWaitingPage])
	return err == nil && enabled
}

// WaitingPageConfigMap is the name of the ConfigMap with that page, "" where there is no page, or none of the object's own.
func WaitingPageConfigMap(object *HTTPScaledObject) string {
	if !HasWaitingPage(object) {
		return ""
	}
	return object.Annotations[AnnotationWaitingPageConfigMap]
}

// PausingAnnotations are all of KEDA's.
func PausingAnnotations() []string {
	return []string{AnnotationPaused, AnnotationPausedReplicas, AnnotationPausedScaleOut}
}

// IsPausedAtZero says that a workload which has no replica will not get one.
func IsPausedAtZero(object *HTTPScaledObject) bool {
	if text, is := object.Annotations[AnnotationPausedReplicas]; is {
		replicas, err := strconv.Atoi(text)
		return err == nil && replicas == 0
	}
	return isSet(object, AnnotationPaused) || isSet(object, AnnotationPausedScaleOut)
}

// isSet reads an annotation as KEDA does: what is no boolean is taken for true.
func isSet(object *HTTPScaledObject, name string) bool {
	text, is := object.Annotations[name]
	value, err := strconv.ParseBool(text)
	return is && (value || err != nil)
}
