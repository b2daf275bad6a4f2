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
func (t *Trial) read(ctx context.Context) (*v1alpha1.Rollout, split.Sharing, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	cluster, err := gather.New(t.client, t.setup.Namespace).One(ctx, types.NamespacedName{Namespace: t.setup.Namespace, Name: name})
	if err != nil {
		return nil, split.Sharing{}, err
	}
	return cluster.Rollouts[0].Rollout, split.Of(cluster, &cluster.Rollouts[0]), nil
}

// checkHealthy reports whether the first version of the application is available.
func (t *Trial) isHealthy(ctx context.Context) (string, bool, error) {
	live, told, err := t.read(ctx)
	if err != nil {
		return "", false, err
	}
	state := fmt.Sprintf("Rollout %s %s, %d of %d Pods available%s", told.Phase, told.Message, told.Replicas.Available, told.Replicas.Total, t.trouble(ctx))
	return state, told.Phase == string(v1alpha1.RolloutPhaseHealthy) && told.Replicas.Available == *live.Spec.Replicas, nil
}

// checkRouted reports whether the proxies, or the Gateway, have the route of the application.
func (t *Trial) isRouted(ctx context.Context) (string, bool, error) {
	_, told, err := t.read(ctx)
	if err != nil {
		return "", false, err
	}
	if t.setup.Router == facts.HTTPRouter {
		return taken(told) + t.trouble(ctx), isTaken(told) && told.Objects[0].Proxies.Ready > 0, nil
	}
	return taken(told), isTaken(told), nil
}

// checkStep reports whether the canary pauses at its step and its weight is applied.
func (t *Trial) atStep(ctx context.Context) (string, bool, error) {
	live, told, err := t.read(ctx)
	if err != nil {
		return "", false, err
	}
	state := fmt.Sprintf("Rollout %s %s at step %d of %d, %s%s", told.Phase, told.Message, told.Step, told.Steps, taken(told), t.trouble(ctx))
	weights := live.Status.Canary.Weights
	isThere := len(live.Status.PauseConditions) > 0 && weights != nil && int(weights.Canary.Weight) == t.setup.Weight
	return state, isThere && isTaken(told), nil
}

// checkEnd reports whether the canary has ended and one version gets all requests.
func (t *Trial) atEnd(ctx context.Context) (string, bool, error) {
	live, told, err := t.read(ctx)
	if err != nil {
		return "", false, err
	}
	state := fmt.Sprintf("Rollout %s %s, %s", told.Phase, told.Message, taken(told))
	isOver := live.Status.StableRS == live.Status.CurrentPodHash && told.Phase == string(v1alpha1.RolloutPhaseHealthy)
	if t.setup.Abort {
		isOver = live.Status.Abort
	}
	weights := live.Status.Canary.Weights
	return state, isOver && (weights == nil || weights.Canary.Weight == 0) && isTaken(told), nil
}

// isApplied reports whether all objects have the desired weights and they are applied.
func isTaken(told split.Sharing) bool {
	for _, object := range told.Objects {
		if !object.AsAsked || object.Taken != split.Yes {
			return false
		}
	}
	return len(told.Objects) > 0
}

// describe describes the weights of the objects.
func taken(told split.Sharing) string {
	text := "no routing object"
	for _, object := range told.Objects {
		text = fmt.Sprintf("%s: weights %v, applied: %s", object.Name, object.Written, object.Taken)
		if why := cmp.Or(object.Problem, object.Why); why != "" {
			text += " (" + why + ")"
		}
	}
	return text
}

// checkLoad reports whether the load generator runs. It fails if the Pod has terminated.
func (t *Trial) isLoading(ctx context.Context) (string, bool, error) {
	pod := new(corev1.Pod)
	if err := t.get(ctx, pod, "api", "v1", "namespaces", t.setup.Namespace, "pods", "load"); err != nil {
		return "", false, err
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return "", false, fmt.Errorf("%w: Pod load is %s: %s", ErrLoadEnded, pod.Status.Phase, pod.Status.Message)
	}
	return string(pod.Status.Phase) + t.trouble(ctx), pod.Status.Phase == corev1.PodRunning, nil
}

// podProblem describes why a Pod does not run; empty if unknown.
func (t *Trial) trouble(ctx context.Context) string {
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
