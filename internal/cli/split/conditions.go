package split

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// The types of conditions.
const (
	// Ready is True if nothing about the configuration or the data plane prevents the canary.
	Ready = "Ready"
	// Written is True if every routing object has the desired weights.
	Written = "Written"
	// Verified is True if Written is, and the data plane applies the weights.
	Verified = "Verified"
	// Promoted is True if all requests go to the newest version, and no canary is in progress.
	Promoted = "Promoted"
)

// Condition is one aspect of a canary.
type Condition struct {
	// Type is Ready, Written, Verified or Promoted, and Status is "True", "False" or "Unknown".
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// Reason is a CamelCase word for programs, and Message explains it.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Condition returns the condition of a type; its status is "Unknown" if the report has none.
func (s *Report) Condition(kind string) Condition {
	for _, condition := range s.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: "NoSuchCondition"}
}

// ready returns condition Ready of a Rollout.
func ready(cluster *facts.Facts, r *facts.Rollout, report *Report) Condition {
	refuse := func(reason, message string) Condition {
		return Condition{Type: Ready, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	for _, err := range []error{r.ServicesError, r.ObjectError, r.RoutesError} {
		if err != nil {
			return refuse("InvalidConfiguration", err.Error())
		}
	}
	for _, condition := range r.Status.Conditions {
		if condition.Type == v1alpha1.InvalidSpec && condition.Status == corev1.ConditionTrue {
			return refuse("InvalidSpec", condition.Message)
		}
	}
	if len(report.Objects) == 0 {
		return refuse("NoRoutingObject", "the Rollout configures neither "+facts.HTTPRouter+" nor "+facts.GatewayRouter)
	}
	for _, object := range report.Objects {
		if object.Problem != "" {
			return refuse("InvalidRoutingObject", object.Name+": "+object.Problem)
		}
	}
	if r.Status.Phase == v1alpha1.RolloutPhaseDegraded {
		return refuse("RolloutDegraded", r.Status.Message)
	}
	var objects []*httpv1alpha1.HTTPScaledObject
	if r.Uses(facts.HTTPRouter) {
		objects = cluster.ObjectsOf(r)
	}
	return readyObjects(objects, report)
}

// readyObjects returns condition Ready of objects and Services.
func readyObjects(objects []*httpv1alpha1.HTTPScaledObject, report *Report) Condition {
	for _, object := range objects {
		for _, kind := range []string{httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionReady} {
			condition := meta.FindStatusCondition(httpv1alpha1.StatusOf(object).Conditions, kind)
			if condition != nil && condition.Status == metav1.ConditionFalse &&
				(condition.ObservedGeneration == 0 || condition.ObservedGeneration >= object.Generation) {
				return Condition{
					Type: Ready, Status: metav1.ConditionFalse, Reason: condition.Reason,
					Message: fmt.Sprintf("%s %s/%s: %s: %s", facts.KindOf(object), object.Namespace, object.Name, kind,
						condition.Message),
				}
			}
		}
	}
	for _, service := range report.Services {
		if service.Desired > 0 && service.Endpoints == 0 && report.Replicas.Total > 0 {
			return Condition{
				Type: Ready, Status: metav1.ConditionFalse, Reason: "NoReadyEndpoint",
				Message: fmt.Sprintf("Service %s has a weight of %d and no ready endpoint", service.Name, service.Desired),
			}
		}
	}
	return Condition{Type: Ready, Status: metav1.ConditionTrue, Reason: "Ready"}
}

// written returns condition Written.
func written(objects []Object) Condition {
	for _, object := range objects {
		switch {
		case object.Written == nil:
			return Condition{
				Type: Written, Status: metav1.ConditionUnknown, Reason: "WeightsUnknown",
				Message: object.Name + ": " + object.Problem,
			}
		case !object.AsDesired:
			return Condition{
				Type: Written, Status: metav1.ConditionFalse, Reason: "OtherWeights",
				Message: object.Name + " does not have the desired weights",
			}
		}
	}
	if len(objects) == 0 {
		return Condition{Type: Written, Status: metav1.ConditionUnknown, Reason: "NoRoutingObject"}
	}
	return Condition{Type: Written, Status: metav1.ConditionTrue, Reason: "AsDesired"}
}

// verified returns condition Verified, given condition Written.
func verified(objects []Object, isWritten Condition) Condition {
	if isWritten.Status != metav1.ConditionTrue {
		return Condition{Type: Verified, Status: isWritten.Status, Reason: isWritten.Reason, Message: isWritten.Message}
	}
	var proxies []string
	for _, object := range objects {
		switch object.Applied {
		case No:
			return Condition{
				Type: Verified, Status: metav1.ConditionFalse, Reason: "NotApplied",
				Message: object.Name + ": " + object.Reason,
			}
		case Unknown:
			return Condition{
				Type: Verified, Status: metav1.ConditionUnknown, Reason: "NoReport",
				Message: object.Name + ": " + object.Reason,
			}
		case Yes:
		}
		if object.Proxies != nil {
			proxies = append(proxies, fmt.Sprintf("%d of %d", object.Proxies.Acked, object.Proxies.Ready))
		}
	}
	condition := Condition{Type: Verified, Status: metav1.ConditionTrue, Reason: "Applied"}
	if len(proxies) > 0 {
		condition.Message = "acknowledged by " + strings.Join(proxies, ", ") + " Ready proxies"
	}
	return condition
}

// promoted returns condition Promoted.
func promoted(r *facts.Rollout) Condition {
	refuse := func(reason, message string) Condition {
		return Condition{Type: Promoted, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	status := r.Status
	switch {
	case !isObserved(r): // an abort may be that of the previous generation
		return refuse("NotObserved", "the controller has not processed the newest generation of the Rollout")
	case status.Abort:
		return refuse("Aborted", status.Message)
	case isRetried(&status):
		return refuse("NotObserved", "the controller has not processed the retry of the aborted canary")
	case status.Phase == v1alpha1.RolloutPhaseHealthy && status.StableRS == status.CurrentPodHash:
		return Condition{Type: Promoted, Status: metav1.ConditionTrue, Reason: "Healthy"}
	case status.Phase == "":
		return refuse("NotObserved", "the controller has reported no phase")
	}
	return refuse(string(status.Phase), status.Message)
}

// isRetried reports whether a canary was aborted and is to be retried, which changes only status.abort at first: the
// controller then changes the phase.
func isRetried(status *v1alpha1.RolloutStatus) bool {
	return !status.Abort && status.Phase == v1alpha1.RolloutPhaseDegraded &&
		strings.HasPrefix(status.Message, abortedPrefix)
}

// abortedPrefix begins the message of an aborted Rollout (argo-rollouts, utils/rollout, GetRolloutPhase).
const abortedPrefix = "RolloutAborted"

// isObserved reports whether the status of a Rollout belongs to its current generation.
func isObserved(r *facts.Rollout) bool {
	observed := r.Status.ObservedGeneration
	return observed == "" || r.Generation == 0 || observed == strconv.FormatInt(r.Generation, 10)
}
