package status

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// reportingController is the name of the interceptor in Events, a qualified name as events.k8s.io/v1 requires.
	reportingController = "kedify.io/http-interceptor"
	// routeAction is the action of Events about conditions, and holdAction that of Events about requests.
	routeAction, holdAction = "Route", "Hold"
	// eventPeriod is the period in which an Event about requests is not repeated.
	eventPeriod = 5 * time.Minute
	// conditionBurst and conditionInterval limit the Events about the conditions of one object: conditionBurst at once,
	// then one per conditionInterval. A Service that comes and goes changes a condition each time.
	conditionBurst    = 25
	conditionInterval = time.Minute
	// eventQueue is the number of Events about requests that can wait to be written. Further ones are dropped until
	// they occur again.
	eventQueue = 256
)

// conditionEvent returns the Event for a change of a condition from previous to current, nil if there is none to emit:
// the condition has not changed or is Unknown, or the object was valid from the start. previous or current is nil while
// the object doesn't have the condition.
func conditionEvent(
	object *httpv1alpha1.HTTPScaledObject, previous, current *metav1.Condition, replica string,
) *eventsv1.Event {
	previous = cmp.Or(previous, &metav1.Condition{})
	if current == nil || current.Status == metav1.ConditionUnknown || previous.Status == current.Status &&
		previous.Reason == current.Reason && previous.Message == current.Message {
		return nil
	}
	kind := corev1.EventTypeWarning
	if current.Status == metav1.ConditionTrue {
		if kind = corev1.EventTypeNormal; previous.Status != metav1.ConditionFalse {
			return nil
		}
	}
	return newEvent(object, RequestEvent{Type: kind, Reason: current.Reason, Note: current.Message}, routeAction,
		current.LastTransitionTime.Time, replica)
}

// permitsEvent reports whether an Event about a condition of the object may be created, and counts it if so.
func (r *record) permitsEvent(now time.Time) bool {
	if r.nextEvent.Add(-(conditionBurst - 1) * conditionInterval).After(now) {
		return false
	}
	r.nextEvent = latest(r.nextEvent, now).Add(conditionInterval)
	return true
}

// newEvent returns an Event about an object for an occurrence that began at since.
func newEvent(
	object *httpv1alpha1.HTTPScaledObject, event RequestEvent, action string, since time.Time, replica string,
) *eventsv1.Event {
	apiVersion, kind := interceptorroute.KindOf(object).ToAPIVersionAndKind()
	return events.Event{
		Object: corev1.ObjectReference{
			APIVersion:      apiVersion,
			Kind:            kind,
			Namespace:       object.Namespace,
			Name:            object.Name,
			UID:             object.UID,
			ResourceVersion: object.ResourceVersion,
		},
		Type: event.Type, Reason: event.Reason, Note: event.Note,
		Controller: reportingController, Action: action, Instance: replica, Since: since,
	}.V1()
}

// RequestEvent is the content of an Event about the requests for an object, such as a rejected request. No condition
// shows it.
type RequestEvent struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is the machine-readable cause, and Note the description for the owner of the object. Neither contains a
	// number that changes between occurrences.
	Reason, Note string
	// RouteNote is the Note about an InterceptorRoute, whose fields have other names; "" for Note.
	RouteNote string
}

// eventKey identifies the Events of one reason about one object.
type eventKey struct {
	object model.Key
	reason string
}

// EmitEvent queues an Event about an object, at most once in eventPeriod for each object and reason. It returns
// immediately. Every replica emits Events, whether it is the leader or not, because each serves its own requests. The
// name of the Event contains its epoch, so replicas that emit the same create one Event.
func (r *Reporter) EmitEvent(key model.Key, event RequestEvent) {
	epoch := time.Now().Truncate(eventPeriod)
	id := eventKey{key, event.Reason}
	if !r.markEmitted(id, epoch) {
		return
	}
	target, _ := r.writer.find(key)
	if target.object == nil {
		r.unmarkEmitted(id, epoch)
		return
	}
	if interceptorroute.IsConverted(target.object) {
		event.Note = cmp.Or(event.RouteNote, event.Note)
	}
	select {
	case r.events <- newEvent(target.object, event, holdAction, epoch, r.writer.Replica):
	default:
		r.unmarkEmitted(id, epoch)
	}
}

// emitInvalidFleets queues an Event about each of the Services of proxies, whose settings are invalid. Like EmitEvent it
// returns immediately, and every replica emits.
func (r *Reporter) emitInvalidFleets(services []*resolve.Service) {
	for _, service := range services {
		event := events.Event{
			Object: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Service", Namespace: service.Key.Namespace, Name: service.Key.Name,
				UID: service.Fleet.UID,
			},
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonInvalidProxyAuthentication, Note: service.Fleet.Problem(),
			Controller: reportingController, Action: routeAction, Instance: r.writer.Replica,
			Since: time.Now().Truncate(eventPeriod),
		}.V1()
		select {
		case r.events <- event:
		default: // The log has the same.
		}
	}
}

// markEmitted records that an Event was emitted in an epoch. It returns false if it was recorded before.
func (r *Reporter) markEmitted(key eventKey, epoch time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.epoch.Equal(epoch) {
		r.emitted, r.epoch = map[eventKey]struct{}{}, epoch
	}
	_, isEmitted := r.emitted[key]
	r.emitted[key] = struct{}{}
	return !isEmitted
}

// unmarkEmitted removes the record of an Event that was not queued, so that EmitEvent emits it at the next occurrence.
func (r *Reporter) unmarkEmitted(key eventKey, epoch time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch.Equal(epoch) {
		delete(r.emitted, key)
	}
}

// writeEvents creates the queued Events until ctx ends.
func (r *Reporter) writeEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.events:
			r.writer.createEvent(ctx, event)
		}
	}
}
