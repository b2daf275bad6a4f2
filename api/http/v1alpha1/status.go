package v1alpha1

import (
	"encoding/json"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxStatusText is the maximum length of AnnotationStatus that is read, in bytes: several times what an
// interceptor writes. Anyone who may edit the object can write more.
const maxStatusText = 32 << 10

// StatusOf returns the reported status of an object: its status and, if the installed CRD lacks fields, those in
// AnnotationStatus. If the status has a data plane report, the CRD has all fields, and the annotation is outdated.
// Otherwise conditions in the annotation override those of the status, which other controllers wrote. The
// annotation is ignored if it is unreadable, or if its UID is that of another object, because it was copied with a
// manifest.
func StatusOf(object *HTTPScaledObject) HTTPScaledObjectStatus {
	text := object.Annotations[AnnotationStatus]
	if text == "" || len(text) > maxStatusText || object.Status.DataPlane != nil {
		return object.Status
	}
	var about struct {
		UID types.UID `json:"uid"`
	}
	var annotated HTTPScaledObjectStatus
	err := errors.Join(json.Unmarshal([]byte(text), &about), json.Unmarshal([]byte(text), &annotated))
	if err != nil || about.UID != object.UID {
		return object.Status
	}
	status := *object.Status.DeepCopy()
	status.DataPlane = annotated.DataPlane
	for _, condition := range annotated.Conditions {
		isSame := func(other metav1.Condition) bool { return other.Type == condition.Type }
		status.Conditions = append(slices.DeleteFunc(status.Conditions, isSame), condition)
	}
	return status
}
