package install

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// waitEstablished waits until the API server serves a CustomResourceDefinition.
func (i *Installer) established(ctx context.Context, of manifests.Reference) error {
	return i.await(ctx, of.String(), func(ctx context.Context) (string, bool, error) {
		var live struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if _, err := i.find(ctx, &live, of.Path()...); err != nil {
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
func (i *Installer) rollOut(ctx context.Context, of manifests.Reference) error {
	return i.await(ctx, of.String(), func(ctx context.Context) (string, bool, error) {
		live := new(appsv1.Deployment)
		is, err := i.find(ctx, live, of.Path()...)
		if err != nil || !is {
			return "does not exist", false, err
		}
		state, done := Progress(live)
		if !done {
			state += i.trouble(ctx, live)
		}
		return state, done, nil
	})
}

// Progress describes the progress of a Deployment's rollout, and reports whether all replicas are updated and
// available.
func Progress(deployment *appsv1.Deployment) (state string, done bool) {
	asked := int32(1)
	if deployment.Spec.Replicas != nil {
		asked = *deployment.Spec.Replicas
	}
	now := deployment.Status
	if now.ObservedGeneration < deployment.Generation {
		return "waiting for the spec update to be observed", false
	}
	old := now.Replicas - now.UpdatedReplicas
	state = fmt.Sprintf("%d of %d replicas updated, %d old, %d available", now.UpdatedReplicas, asked, old, now.AvailableReplicas)
	return state, now.UpdatedReplicas >= asked && old == 0 && now.AvailableReplicas >= asked
}

// podProblem describes why the Pods of a Deployment are not ready; empty if the reason is unknown.
func (i *Installer) trouble(ctx context.Context, deployment *appsv1.Deployment) string {
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
				text += ": " + i.lastWords(ctx, pod.Namespace, pod.Name, container.Name)
			}
			return strings.TrimRight(text, " ")
		}
	}
	return ""
}

// lastLogLine returns the last log line of the previous instance of a container.
func (i *Installer) lastWords(ctx context.Context, namespace, pod, container string) string {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
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
func (i *Installer) gone(ctx context.Context, component string) error {
	const namespace = httpv1alpha1.DefaultInterceptorNamespace
	return i.await(ctx, component, func(ctx context.Context) (string, bool, error) {
		labels := "app.kubernetes.io/name=http-add-on,app.kubernetes.io/component=" + component
		pods, err := list[struct{}](ctx, i, labels, "api", "v1", "namespaces", namespace, "pods")
		return fmt.Sprintf("%d Pods still running", len(pods)), len(pods) == 0, err
	})
}

// waitDeleted waits until the matching objects are deleted, including their finalizers: objects that are created before
// would be deleted as well.
func (i *Installer) absent(ctx context.Context, all []manifests.Reference, isMeant func(manifests.Reference) bool) error {
	for _, of := range all {
		if !isMeant(of) {
			continue
		}
		err := i.await(ctx, of.String(), func(ctx context.Context) (string, bool, error) {
			is, err := i.find(ctx, &struct{}{}, of.Path()...)
			return "waiting for deletion, including its objects", !is && err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
