package v1alpha1

import (
	"encoding/json"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxStatusText is the longest text of AnnotationStatus that is read, in bytes: several times
// what an interceptor writes. Whoever may change the object may write more.
const maxStatusText = 32 << 10

// StatusOf returns what is reported of an object, wherever that is kept: its status and, where
// that has no place for them, the fields of AnnotationStatus. A status with a report about the
// proxies has a place for everything: an annotation is left over from before then. Of conditions
// the annotation comes first otherwise: those of the status are somebody else's. A text that
// cannot be read, or that is about another object and came with a copy of its manifest, counts
// as none.
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
