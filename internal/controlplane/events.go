package controlplane

import (
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
)

// EventFor returns the Event for what happened to a request of an object.
func EventFor(reason holding.Reason) status.RequestEvent {
	switch reason {
	case holding.ColdStart:
		return status.RequestEvent{
			Type: corev1.EventTypeNormal, Reason: httpv1alpha1.ReasonColdStart,
			Note: "A request is queued until the first endpoint is ready.",
		}
	case holding.Rejected:
		return status.RequestEvent{
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonQueueLimitReached,
			Note: "Request rejected with 503: the limit of queued requests is reached. Start the workload faster, keep a " +
				"replica (spec.replicas.min), or have the operator raise the limits (--max-queued-per-object and the other " +
				"--max-queued flags).",
			RouteNote: "Request rejected with 503: the limit of queued requests is reached. Start the workload faster, keep a " +
				"replica (minReplicaCount of the ScaledObject), or have the operator raise the limits (--max-queued-per-object " +
				"and the other --max-queued flags).",
		}
	case holding.TimedOut:
		return status.RequestEvent{
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonColdStartTimeout,
			Note: "Request timed out with 503: no endpoint became ready in time. Check why the workload has no ready Pod, or " +
				"raise spec.timeouts.conditionWait.",
			RouteNote: "Request timed out with 503: no endpoint became ready in time. Check why the workload has no ready Pod, " +
				"or raise spec.timeouts.readiness and spec.timeouts.request.",
		}
	default: // holding.FailedOver
		return status.RequestEvent{
			Type: corev1.EventTypeWarning, Reason: httpv1alpha1.ReasonColdStartFailover,
			Note: "Request sent to spec.coldStartTimeoutFailoverRef.service: no endpoint became ready in time. Check why the " +
				"workload has no ready Pod, or raise timeoutSeconds there, or spec.timeouts.conditionWait if it is 0.",
			RouteNote: "Request sent to spec.coldStart.fallback.service: no endpoint became ready in time. Check why the workload " +
				"has no ready Pod, or raise spec.timeouts.readiness.",
		}
	}
}
