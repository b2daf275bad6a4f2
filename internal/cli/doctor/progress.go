package doctor

import (
	"fmt"
	"strconv"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// startPeriod is how long the controller may take to create the first Pod of a new version.
const startPeriod = 30 * time.Second

// invalidSpec reports a Rollout that the controller rejects, with the controller's message.
func invalidSpec(r *facts.Rollout) []Finding {
	for _, condition := range r.Status.Conditions {
		if condition.Type == v1alpha1.InvalidSpec && condition.Status == corev1.ConditionTrue && isObserved(r) {
			return []Finding{{
				Code: RolloutInvalid, Severity: Error, Object: objectName("Rollout", r.Namespace, r.Name), Field: "spec",
				Message: "the controller rejects the Rollout: " + condition.Message,
				Fix:     "correct the field that the message names; the controller checks again within 20 seconds",
			}}
		}
	}
	return nil
}

// isObserved reports whether the status of a Rollout belongs to its current generation.
func isObserved(r *facts.Rollout) bool {
	observed := r.Status.ObservedGeneration
	return observed == "" || observed == strconv.FormatInt(r.Generation, 10)
}

// notStarted reports Rollouts whose new version has no Pod, although its step requires some. The controller reports some
// errors in its log only, such as a plugin that cannot be started.
func notStarted(cluster *facts.Facts) []Finding {
	if cluster.Controller == nil {
		return nil
	}
	var findings []Finding
	for i := range cluster.Rollouts {
		r := &cluster.Rollouts[i]
		if !r.Uses(facts.HTTPRouter) && !r.Uses(facts.GatewayRouter) || !requiresPods(r) ||
			cluster.Now.Sub(lastProgress(r)) < startPeriod {
			continue
		}
		findings = append(findings, Finding{
			Code: CanaryNotStarted, Severity: Error, Object: objectName("Rollout", r.Namespace, r.Name),
			Field:   "status.updatedReplicas",
			Message: "the new version has no Pod: the controller cannot start the canary, or no Pod may be created",
			Fix: fmt.Sprintf("see the controller's log, which names a plugin that cannot be started: "+
				"kubectl -n %[1]s logs deployment/%[2]s | grep %[4]s; and the Events of the ReplicaSets: "+
				"kubectl -n %[3]s describe replicasets (docs/reference/wrong-setups.md)",
				cluster.Controller.Namespace, cluster.Controller.Name, r.Namespace, "rollout="+r.Name),
		})
	}
	return findings
}

// requiresPods reports whether the controller has to create the first Pod of the new version of a Rollout.
func requiresPods(r *facts.Rollout) bool {
	status := &r.Status
	return status.Phase == v1alpha1.RolloutPhaseProgressing && !status.Abort && isObserved(r) &&
		status.CurrentPodHash != status.StableRS && status.UpdatedReplicas == 0 &&
		(r.Spec.Replicas == nil || *r.Spec.Replicas > 0) && (status.StableRS == "" || stepRequiresPods(r))
}

// stepRequiresPods reports whether the current step requires Pods of the canary: setCanaryScale takes precedence over the
// weight until matchTrafficWeight (argo-rollouts, utils/replicaset, GetCanaryReplicasOrWeight).
func stepRequiresPods(r *facts.Rollout) bool {
	steps, current := r.Spec.Strategy.Canary.Steps, r.Status.CurrentStepIndex
	if current == nil || int(*current) >= len(steps) {
		return true
	}
	var scale *v1alpha1.SetCanaryScale
	weight := int32(0)
	for _, step := range steps[:*current+1] {
		if step.SetCanaryScale != nil {
			scale = step.SetCanaryScale
		}
		if step.SetWeight != nil {
			weight = *step.SetWeight
		}
	}
	if scale == nil || scale.MatchTrafficWeight {
		return weight > 0
	}
	return scale.Replicas != nil && *scale.Replicas > 0 || scale.Weight != nil && *scale.Weight > 0
}

// lastProgress returns the time of the last update of the conditions of a Rollout.
func lastProgress(r *facts.Rollout) (last time.Time) {
	for _, condition := range r.Status.Conditions {
		if condition.LastUpdateTime.After(last) {
			last = condition.LastUpdateTime.Time
		}
	}
	return last
}
