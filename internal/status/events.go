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
	return newEvent(object, happening{kind, is.Reason, is.Message, eventAction, is.LastTransitionTime.Time}, instance, now)
}

// happening is what an Event tells, and since when.
type happening struct {
	kind, reason, note, action string
	since                      time.Time
}

// newEvent makes the Event.
func newEvent(object *httpv1alpha1.HTTPScaledObject, is happening, instance string, now time.Time) *eventsv1.Event {
	digest := fnv.New64a()
	_, _ = fmt.Fprintf(digest, "%s\n%d\n%s\n%s", object.UID, is.since.Unix(), is.reason, is.note)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace,
			Name:      fmt.Sprintf("%s.%016x", shorten(object.Name, 200), digest.Sum64()),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reportingController,
		ReportingInstance:   shorten(instance, maxInstance),
		Action:              is.action,
		Reason:              is.reason,
		Note:                shorten(is.note, maxNote),
		Type:                is.kind,
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
