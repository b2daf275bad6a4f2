package status

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// reportingController is the name under which Events are reported, a qualified name as the events API demands.
	reportingController = "kedify.io/http-interceptor"
	// eventAction is what the interceptor was doing when it had something to report, and holdAction when it announces something.
	eventAction, holdAction = "Route", "Hold"
	// announceEvery is how often the same is told of an object.
	announceEvery = 5 * time.Minute
	// announceQueue is how many announcements wait to be written; what comes beyond is left out until it happens again.
	announceQueue = 256
)

// eventFor returns the Event that tells of the step from one condition about the object as its owner wrote it to the next, or nil when the step is not worth
// one: when nothing changed, and when an object is fine from the start. A condition is nil while the object has none.
func eventFor(object *httpv1alpha1.HTTPScaledObject, was, is *metav1.Condition, instance string) *eventsv1.Event {
	was = cmp.Or(was, &metav1.Condition{})
	if is == nil || was.Status == is.Status && was.Reason == is.Reason && was.Message == is.Message {
		return nil
	}
	kind := corev1.EventTypeWarning
	if is.Status == metav1.ConditionTrue {
		if kind = corev1.EventTypeNormal; was.Status != metav1.ConditionFalse {
			return nil
		}
	}
	return newEvent(object, Announcement{kind, is.Reason, is.Message}, eventAction, is.LastTransitionTime.Time, instance)
}

// newEvent returns an Event about an object for an occurrence that began at since.
func newEvent(object *httpv1alpha1.HTTPScaledObject, announced Announcement, action string, since time.Time, instance string) *eventsv1.Event {
	return events.Event{
		Object: corev1.ObjectReference{
			APIVersion:      httpv1alpha1.SchemeGroupVersion.String(),
			Kind:            httpv1alpha1.Kind,
			Namespace:       object.Namespace,
			Name:            object.Name,
			UID:             object.UID,
			ResourceVersion: object.ResourceVersion,
		},
		Type: announced.Kind, Reason: announced.Reason, Note: announced.Note,
		Controller: reportingController, Action: action, Instance: instance, Since: since,
	}.V1()
}

// Announcement is something that happens to the requests for an object, and that its status does not tell.
type Announcement struct {
	// Kind is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Kind string
	// Reason is machine-readable, and Note for the object's owner. Nothing in it is a number that differs each time.
	Reason, Note string
}

// telling is what was told of an object.
type telling struct {
	object model.Key
	reason string
}

// Announce has an Event tell of something, at most once in five minutes for each object and reason. It returns at once. Each replica tells, elected or not: each
// has requests of its own. The name of an Event says what it tells and in which stretch of announceEvery, so that replicas that tell the same leave one.
func (r *Reporting) Announce(object model.Key, is Announcement) {
	stretch := time.Now().Truncate(announceEvery)
	if r.isTold(telling{object, is.Reason}, stretch) {
		return
	}
	each, _ := r.writer.find(object)
	if each.object == nil {
		return
	}
	select {
	case r.announced <- newEvent(each.object, is, holdAction, stretch, r.writer.Replica):
	default:
	}
}

// isTold says whether something was told in a stretch, and has it count as told.
func (r *Reporting) isTold(is telling, stretch time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stretch.Equal(stretch) {
		r.told, r.stretch = map[telling]struct{}{}, stretch
	}
	_, was := r.told[is]
	r.told[is] = struct{}{}
	return was
}

// writeAnnounced writes what is announced until ctx ends.
func (r *Reporting) writeAnnounced(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.announced:
			r.writer.createEvent(ctx, event)
		}
	}
}
