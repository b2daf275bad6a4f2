package httpso

import (
	"context"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// eventTimeout bounds the writing of an event, which happens while a call waits.
	eventTimeout = time.Second
	// eventPause is the time in which the same warning about a Rollout is not repeated.
	eventPause = 10 * time.Minute
)

// warn writes a Warning event about rollout, and the same to the log. It never fails: an event is a courtesy, and where it may not be written the log has it.
func (r *Router) warn(ctx context.Context, rollout *v1alpha1.Rollout, reason, message string) {
	key := "event " + reason + " " + string(rollout.UID) + " " + rollout.Namespace + "/" + rollout.Name
	waited, first := r.waits.elapsed(key)
	if !first && waited < eventPause {
		return
	}
	if !first {
		r.waits.end(key)
		r.waits.elapsed(key)
	}
	r.log.WarnContext(ctx, message, "rollout", rollout.Namespace+"/"+rollout.Name, "reason", reason) //nolint:sloglint // the event's text, to find one by the other
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	now := metav1.Now()
	err := r.client.create(ctx, &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: rollout.Namespace, GenerateName: rollout.Name + "-"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Rollout",
			Namespace: rollout.Namespace, Name: rollout.Name, UID: rollout.UID, ResourceVersion: rollout.ResourceVersion,
		},
		Reason: reason, Message: message, Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: FieldManager}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, "api", "v1", "namespaces", rollout.Namespace, "events")
	if err != nil {
		r.log.DebugContext(ctx, "event not written", "error", err.Error())
	}
}
