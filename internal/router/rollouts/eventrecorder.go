package rollouts

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

const (
	// eventTimeout is the deadline for writing an Event, which happens during a call.
	eventTimeout = time.Second
	// repeatInterval is the minimum time between two equal warnings about a Rollout.
	repeatInterval = 10 * time.Minute
)

// EventRecorder emits Warning Events of a router.
type EventRecorder struct {
	client    *kube.Client
	component string
	log       *slog.Logger
	recent    *kube.Waits
}

// NewEventRecorder returns an EventRecorder that writes Events, from component, through client, and the same texts to
// log.
func NewEventRecorder(client *kube.Client, component string, log *slog.Logger) *EventRecorder {
	return &EventRecorder{client: client, component: component, log: log, recent: kube.NewWaits()}
}

// Warn writes a Warning Event about rollout, with the address of the reason's documentation, and the same text to the
// log, unless it wrote the same text in the last repeatInterval. It never fails: if the Event cannot be written, the log still contains the text.
func (e *EventRecorder) Warn(ctx context.Context, rollout *v1alpha1.Rollout, reason, message string) {
	e.WarnTopic(ctx, rollout, reason, message, message)
}

// WarnTopic is Warn for a message with changing numbers: within repeatInterval it writes one message per reason and
// topic.
func (e *EventRecorder) WarnTopic(ctx context.Context, rollout *v1alpha1.Rollout, reason, topic, message string) {
	key := reason + " " + string(rollout.UID) + " " + rollout.Namespace + "/" + rollout.Name + " " + topic
	elapsed, first := e.recent.Elapsed(key, "")
	if !first && elapsed < repeatInterval {
		return
	}
	if !first {
		e.recent.End(key)
		e.recent.Elapsed(key, "")
	}
	name := rollout.Namespace + "/" + rollout.Name
	e.log.WarnContext(ctx, message, "rollout", name, "reason", reason) //nolint:sloglint // the same text as the Event
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	err := events.CreateCore(ctx, e.client, events.Event{
		Object: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Rollout",
			Namespace: rollout.Namespace, Name: rollout.Name, UID: rollout.UID, ResourceVersion: rollout.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Controller: e.component,
		Note: message + "; see " + events.FindingsPage + "#" + strings.ToLower(reason),
	}.Core())
	if err != nil {
		e.log.DebugContext(ctx, "cannot write Event", "error", err.Error())
	}
}
