package controlplane

import (
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
)

// AnnouncementOf says to the owner of an object what has happened to one of its requests.
func AnnouncementOf(is holding.Occasion) status.RequestEvent {
	switch is {
	case holding.ColdStart:
		return status.RequestEvent{
			Type: corev1.EventTypeNormal, Reason: httpv1alpha1.ReasonColdStart,
			Note: "A request waits for the first ready endpoint.",
		}
	case holding.TurnedAway:
		return status.RequestEvent{
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonTooManyHeld,
			Note: "A request was answered with 503 because as many wait as may: have the workload start faster, keep a replica " +
				"(spec.replicas.min), or have the operator raise the limits (--max-held-per-object and its like).",
		}
	case holding.TooLate:
		return status.RequestEvent{
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonColdStartTimeout,
			Note: "A request was answered with 503 because nothing became ready in time: look why the workload has no ready Pod, " +
				"or raise spec.timeouts.conditionWait.",
		}
	default: // hold.FailedOver
		return status.RequestEvent{
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonColdStartFailover,
			Note: "A request went to spec.coldStartTimeoutFailoverRef.service because nothing became ready in time: look why the " +
				"workload has no ready Pod, or raise timeoutSeconds there.",
		}
	}
}
