package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

const (
	// rolloutKind and rolloutGroup identify Rollouts.
	rolloutKind, rolloutGroup = "Rollout", "argoproj.io"
	// maxEvents limits the Events of one object, and maxMessage their messages in bytes.
	maxEvents, maxMessage = 50, 1024
)

// Get reads a path of the API server as JSON.
type Get func(ctx context.Context, path string, query map[string]string) ([]byte, error)

// Reader reads the workload of an object, and the Events of both.
type Reader struct {
	// Get reads from the API server.
	Get Get
}

// Read implements Options.Workload.
func (r Reader) Read(ctx context.Context, source view.Source) view.Workload {
	var workload view.Workload
	object, target := source.Object, source.Object.Spec.ScaleTargetRef
	kind := cmp.Or(target.Kind, "Deployment")
	switch {
	case target.Name == "":
		workload.Notes = append(workload.Notes, "The object names no workload: its steps and replicas are not shown.")
	case len(validation.IsDNS1123Subdomain(target.Name)) > 0: // with slashes, it could lead to another namespace
		workload.Notes = append(workload.Notes, "The name of the workload is invalid: its steps and replicas are not shown.")
		target.Name = ""
	case kind == rolloutKind:
		r.addRollout(ctx, &workload, object.Namespace, target.Name)
	case kind == "Deployment":
		r.addDeployment(ctx, &workload, object.Namespace, target.Name)
	}
	names := []string{object.Name}
	if target.Name != "" && target.Name != object.Name {
		names = append(names, target.Name)
	}
	for _, name := range names {
		r.addEvents(ctx, &workload, object.Namespace, name)
	}
	slices.SortStableFunc(workload.Events, func(a, b view.Event) int { return b.Time.Compare(a.Time) })
	workload.Events = workload.Events[:min(len(workload.Events), maxEvents)]
	return workload
}

// get reads and decodes a path. A failure becomes a note.
func (r Reader) get(
	ctx context.Context, workload *view.Workload, what, path string, query map[string]string, target any,
) bool {
	body, err := r.Get(ctx, path, query)
	if err == nil {
		err = json.Unmarshal(body, target)
	}
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err):
		workload.Notes = append(workload.Notes,
			what+" is not shown: the interceptor has no permission. Bind ClusterRole kedify-http-interceptor-dashboard.")
	case apierrors.IsNotFound(err):
		workload.Notes = append(workload.Notes, what+" does not exist.")
	default: // The error may name the API server.
		workload.Notes = append(workload.Notes, what+" is not shown: the API server did not answer.")
	}
	return false
}

// rollout has the fields of a Rollout that are shown.
type rollout struct {
	Spec struct {
		Replicas *int32 `json:"replicas"`
		Paused   bool   `json:"paused"`
		Strategy struct {
			Canary *struct {
				StableService string                       `json:"stableService"`
				CanaryService string                       `json:"canaryService"`
				Steps         []map[string]json.RawMessage `json:"steps"`
				PingPong      *struct {
					PingService string `json:"pingService"`
					PongService string `json:"pongService"`
				} `json:"pingPong"`
			} `json:"canary"`
		} `json:"strategy"`
	} `json:"spec"`
	Status struct {
		Phase             string `json:"phase"`
		Message           string `json:"message"`
		Abort             bool   `json:"abort"`
		ControllerPause   bool   `json:"controllerPause"`
		CurrentStepIndex  *int   `json:"currentStepIndex"`
		Replicas          int32  `json:"replicas"`
		UpdatedReplicas   int32  `json:"updatedReplicas"`
		AvailableReplicas int32  `json:"availableReplicas"`
		PauseConditions   []struct {
			Reason string `json:"reason"`
		} `json:"pauseConditions"`
		Canary struct {
			StablePingPong string   `json:"stablePingPong"`
			Weights        *weights `json:"weights"`
		} `json:"canary"`
	} `json:"status"`
}

// weights are the weights in the status of a Rollout.
type weights struct {
	Stable     destination   `json:"stable"`
	Canary     destination   `json:"canary"`
	Additional []destination `json:"additional"`
}

// destination is the weight of one Service.
type destination struct {
	Weight      int32  `json:"weight"`
	ServiceName string `json:"serviceName"`
}

// addRollout adds a Rollout.
func (r Reader) addRollout(ctx context.Context, workload *view.Workload, namespace, name string) {
	var read rollout
	path := "/apis/argoproj.io/v1alpha1/namespaces/" + namespace + "/rollouts/" + name
	if !r.get(ctx, workload, "Rollout "+name, path, nil, &read) {
		return
	}
	status := read.Status
	workload.Replicas = &view.Replicas{
		Desired: replicasOf(read.Spec.Replicas), Total: status.Replicas, Updated: status.UpdatedReplicas,
		Available: status.AvailableReplicas,
	}
	shown := &view.Rollout{
		Name: name, Phase: status.Phase, Message: truncate.Text(status.Message, maxMessage),
		IsAborted: status.Abort, IsPaused: read.Spec.Paused || status.ControllerPause || len(status.PauseConditions) > 0,
	}
	for _, condition := range status.PauseConditions {
		shown.Paused = condition.Reason
	}
	workload.Rollout = shown
	if canary := read.Spec.Strategy.Canary; canary != nil {
		if shown.Steps = len(canary.Steps); shown.Steps > 0 {
			index := 0
			if status.CurrentStepIndex != nil {
				index = *status.CurrentStepIndex
			}
			shown.Step = min(index+1, shown.Steps)
			if index < shown.Steps {
				shown.Current = describeStep(canary.Steps[index])
			}
		}
		workload.Desired = desiredOf(&read)
	}
}

// replicasOf returns the number of replicas in a spec; the default is 1.
func replicasOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// desiredOf returns the weights of the Services in the status of a canary Rollout. Without weights, all requests are
// for the stable Service.
func desiredOf(read *rollout) map[string]int32 {
	canary, status := read.Spec.Strategy.Canary, read.Status.Canary
	stable, other := canary.StableService, canary.CanaryService
	if pair := canary.PingPong; pair != nil {
		if stable, other = pair.PingService, pair.PongService; status.StablePingPong == "pong" {
			stable, other = other, stable
		}
	}
	const all = 100
	found := weights{Stable: destination{Weight: all}}
	if status.Weights != nil {
		found = *status.Weights
	}
	desired := map[string]int32{stable: found.Stable.Weight, other: found.Canary.Weight}
	for _, more := range found.Additional {
		desired[more.ServiceName] = more.Weight
	}
	return desired
}

// describeStep describes a step of a canary, such as setWeight 20.
func describeStep(step map[string]json.RawMessage) string {
	for name, value := range step { // A step has one field.
		var duration struct {
			Duration any `json:"duration"`
		}
		switch {
		case name == "setWeight":
			return name + " " + string(value)
		case name == "pause" && json.Unmarshal(value, &duration) == nil && duration.Duration != nil:
			return fmt.Sprintf("pause %v", duration.Duration)
		case name == "pause":
			return "pause until promoted"
		default:
			return name
		}
	}
	return ""
}

// addDeployment adds the replicas of a Deployment.
func (r Reader) addDeployment(ctx context.Context, workload *view.Workload, namespace, name string) {
	var read struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
		Status struct {
			Replicas          int32 `json:"replicas"`
			UpdatedReplicas   int32 `json:"updatedReplicas"`
			AvailableReplicas int32 `json:"availableReplicas"`
		} `json:"status"`
	}
	path := "/apis/apps/v1/namespaces/" + namespace + "/deployments/" + name
	if r.get(ctx, workload, "Deployment "+name, path, nil, &read) {
		workload.Replicas = &view.Replicas{
			Desired: replicasOf(read.Spec.Replicas), Total: read.Status.Replicas, Updated: read.Status.UpdatedReplicas,
			Available: read.Status.AvailableReplicas,
		}
	}
}

// addEvents adds the Events of all objects of a name.
func (r Reader) addEvents(ctx context.Context, workload *view.Workload, namespace, name string) {
	var read struct {
		Items []struct {
			Type           string           `json:"type"`
			Reason         string           `json:"reason"`
			Message        string           `json:"message"`
			Count          int32            `json:"count"`
			LastTimestamp  metav1.Time      `json:"lastTimestamp"`
			EventTime      metav1.MicroTime `json:"eventTime"`
			Reporter       string           `json:"reportingComponent"`
			InvolvedObject struct {
				Kind string `json:"kind"`
			} `json:"involvedObject"`
			Series *struct {
				Count            int32            `json:"count"`
				LastObservedTime metav1.MicroTime `json:"lastObservedTime"`
			} `json:"series"`
		} `json:"items"`
	}
	query := map[string]string{"fieldSelector": "involvedObject.name=" + name, "limit": "200"}
	path := "/api/v1/namespaces/" + namespace + "/events"
	if !r.get(ctx, workload, "The list of Events", path, query, &read) {
		workload.Notes = slices.Compact(workload.Notes)
		return
	}
	for _, item := range read.Items {
		event := view.Event{
			Time: latest(item.LastTimestamp.Time, item.EventTime.Time), Type: item.Type, Reason: item.Reason,
			Message: truncate.Text(strings.TrimSpace(item.Message), maxMessage), About: item.InvolvedObject.Kind,
			By: item.Reporter, Count: max(item.Count, 1),
		}
		if item.Series != nil {
			event.Time, event.Count = latest(event.Time, item.Series.LastObservedTime.Time), item.Series.Count
		}
		workload.Events = append(workload.Events, event)
	}
}

// latest returns the later of two times in UTC.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		a = b
	}
	return a.UTC()
}
