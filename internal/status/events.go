package status

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// reportingController is the name under which Events are reported, a qualified name as the events API demands.
	reportingController = "kedify.io/http-interceptor"
	// eventAction is what the interceptor was doing when it had something to report.
	eventAction = "Route"
	// maxNote is the longest note that the events API takes, in bytes.
	maxNote = 1024
	// maxInstance is the longest reporting instance that the events API takes, in bytes.
	maxInstance = 128
)

// eventFor returns the Event that tells of the step from one condition about the object as its owner wrote it to the next, or nil when the step is not worth
// one: when nothing changed, and when an object is fine from the start. was is the zero value for an object that had no condition yet.
//
// The name is made of what the Event is about, so that telling the same thing twice, say by two replicas in turn, leaves one Event.
func eventFor(object *httpv1alpha1.HTTPScaledObject, was, is metav1.Condition, instance string, now time.Time) *eventsv1.Event {
	fine := is.Status == metav1.ConditionTrue
	if fine && was.Status != metav1.ConditionFalse || was.Status == is.Status && was.Reason == is.Reason && was.Message == is.Message {
		return nil
	}
	kind := corev1.EventTypeWarning
	if fine {
		kind = corev1.EventTypeNormal
	}
	digest := fnv.New64a()
	_, _ = fmt.Fprintf(digest, "%s\n%d\n%s\n%s", object.UID, is.LastTransitionTime.Unix(), is.Reason, is.Message)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace,
			Name:      fmt.Sprintf("%s.%016x", shorten(object.Name, 200), digest.Sum64()),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reportingController,
		ReportingInstance:   shorten(instance, maxInstance),
		Action:              eventAction,
		Reason:              is.Reason,
		Note:                shorten(is.Message, maxNote),
		Type:                kind,
		Regarding: corev1.ObjectReference{
			APIVersion:      httpv1alpha1.SchemeGroupVersion.String(),
			Kind:            httpv1alpha1.Kind,
			Namespace:       object.Namespace,
			Name:            object.Name,
			UID:             object.UID,
			ResourceVersion: object.ResourceVersion,
		},
	}
}
