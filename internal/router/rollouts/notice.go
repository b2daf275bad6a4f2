package rollouts

import (
	"context"
	"log/slog"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

const (
	// eventTimeout bounds the writing of an event, which happens while a call waits.
	eventTimeout = time.Second
	// eventPause is the time in which the same warning about a Rollout is not repeated.
	eventPause = 10 * time.Minute
)

// Board is where a router puts its warnings.
type Board struct {
	client    *kube.Client
	component string
	log       *slog.Logger
	told      *kube.Waits
}

// NewBoard returns a Board that writes events through client, as coming from component, and the same to log.
func NewBoard(client *kube.Client, component string, log *slog.Logger) *Board {
	return &Board{client: client, component: component, log: log, told: kube.NewWaits()}
}

// Warn writes a Warning event about rollout, and the same to the log, unless it did so in the last 10 minutes, word for word. It never fails: an event is a
// courtesy, and where it may not be written the log has it.
func (b *Board) Warn(ctx context.Context, rollout *v1alpha1.Rollout, reason, message string) {
	b.WarnOf(ctx, rollout, reason, message, message)
}

// WarnOf is Warn for a message with numbers that change: one with the same reason about the same is not repeated within 10 minutes.
func (b *Board) WarnOf(ctx context.Context, rollout *v1alpha1.Rollout, reason, about, message string) {
	key := reason + " " + string(rollout.UID) + " " + rollout.Namespace + "/" + rollout.Name + " " + about
	waited, first := b.told.Elapsed(key, "")
	if !first && waited < eventPause {
		return
	}
	if !first {
		b.told.End(key)
		b.told.Elapsed(key, "")
	}
	b.log.WarnContext(ctx, message, "rollout", rollout.Namespace+"/"+rollout.Name, "reason", reason) //nolint:sloglint // the event's text, to find one by the other
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	err := events.CreateCore(ctx, b.client, events.Event{
		Object: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Rollout",
			Namespace: rollout.Namespace, Name: rollout.Name, UID: rollout.UID, ResourceVersion: rollout.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Note: message, Controller: b.component,
	}.Core())
	if err != nil {
		b.log.DebugContext(ctx, "event not written", "error", err.Error())
	}
}
