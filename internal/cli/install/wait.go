package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// waitEstablished waits until the API server serves a CustomResourceDefinition.
func (i *Installer) waitEstablished(ctx context.Context, reference manifests.Reference) error {
	return i.waitFor(ctx, reference.String(), func(ctx context.Context) (string, bool, error) {
		var live struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if _, err := i.find(ctx, &live, reference.Path()...); err != nil {
			return "", false, err
		}
		for _, condition := range live.Status.Conditions {
			if condition.Type == "Established" && condition.Status == metav1.ConditionTrue {
				return "established", true, nil
			}
		}
		return "waiting for it to be established", false, nil
	})
}

// waitRolledOut waits until all replicas of a Deployment are updated and available.
func (i *Installer) waitRolledOut(ctx context.Context, reference manifests.Reference) error {
	return i.waitFor(ctx, reference.String(), func(ctx context.Context) (string, bool, error) {
		live := new(appsv1.Deployment)
		exists, err := i.find(ctx, live, reference.Path()...)
		if err != nil || !exists {
			return "does not exist", false, err
		}
		state, done := Progress(live)
		if !done {
			state += i.podProblem(ctx, live)
		}
		return state, done, nil
	})
}

// Progress describes the progress of a Deployment's rollout, and reports whether all replicas are updated and
// available.
func Progress(deployment *appsv1.Deployment) (state string, done bool) {
	desired := int32(1)
	if deployment.Spec.Replicas != nil {
		desired = *deployment.Spec.Replicas
	}
	status := deployment.Status
	if status.ObservedGeneration < deployment.Generation {
		return "waiting for the spec update to be observed", false
	}
	old := status.Replicas - status.UpdatedReplicas
	state = fmt.Sprintf("%d of %d replicas updated, %d old, %d available", status.UpdatedReplicas, desired, old,
		status.AvailableReplicas)
	return state, status.UpdatedReplicas >= desired && old == 0 && status.AvailableReplicas >= desired
}

// podProblem describes why the Pods of a Deployment are not ready; empty if the reason is unknown.
func (i *Installer) podProblem(ctx context.Context, deployment *appsv1.Deployment) string {
	selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
	pods, err := list[corev1.Pod](ctx, i, selector, "api", "v1", "namespaces", deployment.Namespace, "pods")
	if err != nil {
		return ""
	}
	for _, pod := range pods {
		for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			state := container.State.Waiting
			if state == nil || state.Reason == "ContainerCreating" || state.Reason == "PodInitializing" {
				continue
			}
			text := fmt.Sprintf("; Pod %s: container %s: %s %s", pod.Name, container.Name, state.Reason, state.Message)
			if container.LastTerminationState.Terminated != nil {
				text += ": " + i.lastLogLine(ctx, pod.Namespace, pod.Name, container.Name)
			}
			return strings.TrimRight(text, " ")
		}
	}
	return ""
}

// lastLogLine returns the last log line of the previous instance of a container.
func (i *Installer) lastLogLine(ctx context.Context, namespace, pod, container string) string {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log, err := i.client.Do(ctx, kube.Request{
		Path:  []string{"api", "v1", "namespaces", namespace, "pods", pod, "log"},
		Query: map[string]string{"container": container, "previous": "true", "tailLines": "1"},
	})
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(log))
}

// waitPodsGone waits until no Pod of a component is left.
func (i *Installer) waitPodsGone(ctx context.Context, component string) error {
	const namespace = httpv1alpha1.DefaultInterceptorNamespace
	return i.waitFor(ctx, component, func(ctx context.Context) (string, bool, error) {
		labels := facts.LabelName + "=" + facts.ComponentsName + "," + facts.LabelComponent + "=" + component
		pods, err := list[corev1.Pod](ctx, i, labels, "api", "v1", "namespaces", namespace, "pods")
		// Other products have Pods with these labels.
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return !facts.IsAccountOf(pod.Spec.ServiceAccountName, component)
		})
		return fmt.Sprintf("%d Pods still running", len(pods)), len(pods) == 0, err
	})
}

// waitDeleted waits until the matching objects are deleted, including their finalizers: objects that are created before
// would be deleted as well.
func (i *Installer) waitDeleted(ctx context.Context, all []manifests.Reference,
	matches func(manifests.Reference) bool,
) error {
	for _, reference := range all {
		if !matches(reference) {
			continue
		}
		err := i.waitFor(ctx, reference.String(), func(ctx context.Context) (string, bool, error) {
			exists, err := i.find(ctx, &struct{}{}, reference.Path()...)
			return "waiting for deletion, including its objects", !exists && err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
