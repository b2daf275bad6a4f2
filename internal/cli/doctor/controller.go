package doctor

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// controller checks the Argo Rollouts controller.
func controller(cluster *facts.Facts) []Finding {
	if !cluster.HasRead(facts.Deployments) {
		return nil
	}
	if cluster.Controller == nil {
		return []Finding{{
			Code: ControllerNotFound, Severity: Error, Object: "Deployment argo-rollouts",
			Message: "no Deployment has the labels app.kubernetes.io/name=argo-rollouts and " +
				"app.kubernetes.io/component=rollouts-controller: " +
				"Argo Rollouts is not installed",
			Fix: "install Argo Rollouts 1.9 or 1.10 (docs/how-to/install.md)",
		}}
	}
	object := objectName("Deployment", cluster.Controller.Namespace, cluster.Controller.Name)
	if ready, ok := readiness(cluster.Controller); !ok {
		return []Finding{{
			Code: ControllerNotReady, Severity: Error, Object: object, Field: "status.readyReplicas",
			Message: ready + waitingReason(cluster.Pods) + ": no Rollout progresses",
			Fix: fmt.Sprintf("see its log: kubectl -n %s logs deployment/%s. It exits at startup if it cannot "+
				"download a plugin, or if the checksum of a "+
				"plugin does not match sha256", cluster.Controller.Namespace, cluster.Controller.Name),
		}}
	}
	return staleController(cluster, object)
}

// readiness describes how many replicas of a Deployment are ready, and reports whether at least one is.
func readiness(deployment *appsv1.Deployment) (string, bool) {
	desired := int32(1)
	if deployment.Spec.Replicas != nil {
		desired = *deployment.Spec.Replicas
	}
	ready := deployment.Status.ReadyReplicas
	return fmt.Sprintf("%d of %d replicas are ready", ready, desired), ready > 0
}

// waitingReason describes why a container of the Pods is waiting. It is empty if none is.
func waitingReason(pods []corev1.Pod) string {
	for _, pod := range pods {
		for _, container := range pod.Status.ContainerStatuses {
			if state := container.State.Waiting; state != nil && state.Reason != "" {
				return fmt.Sprintf(" (Pod %s: %s)", pod.Name, state.Reason)
			}
		}
	}
	return ""
}

// staleController finds a controller that was started before its plugins were changed: it reads them only at startup.
func staleController(cluster *facts.Facts, object string) []Finding {
	changed, ok := pluginsChangedAt(cluster.Plugins)
	if !ok {
		return nil
	}
	for _, pod := range cluster.Pods {
		started := pod.CreationTimestamp.Time
		for _, container := range pod.Status.ContainerStatuses {
			if running := container.State.Running; running != nil && running.StartedAt.After(started) {
				started = running.StartedAt.Time
			}
		}
		if pod.DeletionTimestamp == nil && started.Before(changed) {
			return []Finding{{
				Code: ControllerOutdated, Severity: Warning, Object: object,
				Message: fmt.Sprintf("Pod %s has been running since %s, but the plugins were changed at %s: it "+
					"still uses the previous list",
					pod.Name, started.UTC().Format(time.RFC3339), changed.UTC().Format(time.RFC3339)),
				Fix: fmt.Sprintf("kubectl -n %s rollout restart deployment/%s", cluster.Controller.Namespace,
					cluster.Controller.Name),
			}}
		}
	}
	return nil
}

// pluginsChangedAt returns the time of the last change of the list of plugins, according to its managed fields.
func pluginsChangedAt(plugins *corev1.ConfigMap) (last time.Time, ok bool) {
	if plugins == nil {
		return last, false
	}
	for _, entry := range plugins.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil &&
			bytes.Contains(entry.FieldsV1.Raw, []byte(`"f:`+facts.PluginsKey+`"`)) &&
			entry.Time.After(last) {
			last, ok = entry.Time.Time, true
		}
	}
	return last, ok
}

// filePlatform returns the operating system and the architecture in the name of a release file; both are empty if the
// name has none.
func filePlatform(location string) (system, architecture string) {
	parts := strings.Split(location[strings.LastIndex(location, "/")+1:], "-")
	if len(parts) < 3 {
		return "", ""
	}
	system, architecture = parts[len(parts)-2], parts[len(parts)-1]
	switch system {
	case "linux", "darwin", "windows":
		return system, strings.TrimSuffix(architecture, ".exe")
	}
	return "", ""
}
