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

// PausingAnnotations are all of them.
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
