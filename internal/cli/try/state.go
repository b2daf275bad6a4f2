package try

import (
	"cmp"
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// readReport reads the Rollout and its traffic split.
func (t *Trial) readReport(ctx context.Context) (*v1alpha1.Rollout, split.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cluster, err := gather.New(t.client, t.setup.Namespace).Rollout(ctx,
		types.NamespacedName{Namespace: t.setup.Namespace, Name: name})
	if err != nil {
		return nil, split.Report{}, err
	}
	return cluster.Rollouts[0].Rollout, split.Of(cluster, &cluster.Rollouts[0]), nil
}

// checkHealthy reports whether the first version of the application is available.
func (t *Trial) checkHealthy(ctx context.Context) (string, bool, error) {
	live, report, err := t.readReport(ctx)
	if err != nil {
		return "", false, err
	}
	state := fmt.Sprintf("Rollout %s %s, %d of %d Pods available%s", report.Phase, report.Message,
		report.Replicas.Available, report.Replicas.Total, t.podProblem(ctx))
	return state, report.Phase == string(v1alpha1.RolloutPhaseHealthy) &&
		report.Replicas.Available == *live.Spec.Replicas, nil
}

// checkRouted reports whether the proxies, or the Gateway, have the route of the application.
func (t *Trial) checkRouted(ctx context.Context) (string, bool, error) {
	_, report, err := t.readReport(ctx)
	if err != nil {
		return "", false, err
	}
	if t.setup.Router == facts.HTTPRouter {
		return describe(report) + t.podProblem(ctx), isApplied(report) && report.Objects[0].Proxies.Ready > 0, nil
	}
	return describe(report), isApplied(report), nil
}

// checkStep reports whether the canary pauses at its step and its weight is applied.
func (t *Trial) checkStep(ctx context.Context) (string, bool, error) {
	live, report, err := t.readReport(ctx)
	if err != nil {
		return "", false, err
	}
	state := fmt.Sprintf("Rollout %s %s at step %d of %d, %s%s", report.Phase, report.Message, report.Step,
		report.Steps, describe(report), t.podProblem(ctx))
	weights := live.Status.Canary.Weights
	isPaused := len(live.Status.PauseConditions) > 0 && weights != nil && int(weights.Canary.Weight) == t.setup.Weight
	return state, isPaused && isApplied(report), nil
}

// checkEnd reports whether the canary has ended and one version gets all requests.
func (t *Trial) checkEnd(ctx context.Context) (string, bool, error) {
	live, report, err := t.readReport(ctx)
	if err != nil {
		return "", false, err
	}
	state := fmt.Sprintf("Rollout %s %s, %s", report.Phase, report.Message, describe(report))
	isOver := live.Status.StableRS == live.Status.CurrentPodHash && report.Phase == string(v1alpha1.RolloutPhaseHealthy)
	if t.setup.Abort {
		isOver = live.Status.Abort
	}
	weights := live.Status.Canary.Weights
	return state, isOver && (weights == nil || weights.Canary.Weight == 0) && isApplied(report), nil
}

// isApplied reports whether all objects have the desired weights and they are applied.
func isApplied(report split.Report) bool {
	for _, object := range report.Objects {
		if !object.AsDesired || object.Applied != split.Yes {
			return false
		}
	}
	return len(report.Objects) > 0
}

// describe describes the weights of the objects.
func describe(report split.Report) string {
	text := "no routing object"
	for _, object := range report.Objects {
		text = fmt.Sprintf("%s: weights %v, applied: %s", object.Name, object.Written, object.Applied)
		if reason := cmp.Or(object.Problem, object.Reason); reason != "" {
			text += " (" + reason + ")"
		}
	}
	return text
}

// checkLoad reports whether the load generator runs. It fails if the Pod has terminated.
func (t *Trial) checkLoad(ctx context.Context) (string, bool, error) {
	pod := new(corev1.Pod)
	if err := t.get(ctx, pod, "api", "v1", "namespaces", t.setup.Namespace, "pods", "load"); err != nil {
		return "", false, err
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return "", false, fmt.Errorf("%w: Pod load is %s: %s", ErrLoadEnded, pod.Status.Phase, pod.Status.Message)
	}
	return string(pod.Status.Phase) + t.podProblem(ctx), pod.Status.Phase == corev1.PodRunning, nil
}

// podProblem describes why a Pod does not run; empty if unknown.
func (t *Trial) podProblem(ctx context.Context) string {
	var pods corev1.PodList
	err := t.get(ctx, &pods, "api", "v1", "namespaces", t.setup.Namespace, "pods")
	if err != nil && !apierrors.IsNotFound(err) {
		return ""
	}
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return fmt.Sprintf("; Pod %s: %s", pod.Name, condition.Message)
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if state := container.State.Waiting; state != nil && state.Reason != "ContainerCreating" {
				return fmt.Sprintf("; Pod %s: %s %s", pod.Name, state.Reason, state.Message)
			}
		}
	}
	return ""
}
