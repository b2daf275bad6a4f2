package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// WeightsAnnotation is the annotation with the traffic split, which the router writes.
const WeightsAnnotation = "http.kedify.io/weighted-backends"

// Rollout is the part of a Rollout that the tests and the demo read.
type Rollout struct {
	Metadata Metadata      `json:"metadata"`
	Spec     RolloutSpec   `json:"spec"`
	Status   RolloutStatus `json:"status"`
}

// Metadata is the part of an object's metadata that the tests and the demo read.
type Metadata struct {
	Name        string            `json:"name"`
	Generation  int64             `json:"generation"`
	Annotations map[string]string `json:"annotations"`
}

// RolloutSpec is the desired state of a Rollout.
type RolloutSpec struct {
	Replicas int `json:"replicas"`
}

// RolloutStatus is the status of a Rollout.
type RolloutStatus struct {
	// Phase is Healthy, Progressing, Paused or Degraded.
	Phase   string `json:"phase"`
	Message string `json:"message"`
	// ObservedGeneration is a string in this API.
	ObservedGeneration string `json:"observedGeneration"`
	CurrentStepIndex   *int   `json:"currentStepIndex"`
	Abort              bool   `json:"abort"`
	StableRS           string `json:"stableRS"`
	CurrentPodHash     string `json:"currentPodHash"`
	ReadyReplicas      int    `json:"readyReplicas"`
	// Replicas is the number of Pods of both sides, UpdatedReplicas that of the newest version. During a canary that is
	// the canary.
	Replicas        int `json:"replicas"`
	UpdatedReplicas int `json:"updatedReplicas"`
	PauseConditions []struct {
		Reason string `json:"reason"`
	} `json:"pauseConditions"`
	Canary struct {
		Weights *RolloutWeights `json:"weights"`
	} `json:"canary"`
}

// RolloutWeights are the weights that the controller requested from its router.
type RolloutWeights struct {
	Canary struct {
		Weight int `json:"weight"`
	} `json:"canary"`
	// Verified is the router's response whether the weights are active; nil before the first response.
	Verified *bool `json:"verified"`
}

// Healthy reports whether the controller has observed the latest spec and rolled it out completely.
func (r Rollout) Healthy() bool {
	return r.isCurrent() && r.Status.Phase == "Healthy" && r.Status.StableRS != "" &&
		r.Status.StableRS == r.Status.CurrentPodHash
}

// Paused reports whether the Rollout waits at a pause step, for a time or for a promotion.
func (r Rollout) Paused() bool {
	return r.isCurrent() && r.Status.Phase == "Paused" && len(r.Status.PauseConditions) > 0
}

// Sides returns the numbers of Pods of both sides. Without a canary all are stable.
func (r Rollout) Sides() (stable, canary int) {
	if r.Status.StableRS == r.Status.CurrentPodHash {
		return r.Status.Replicas, 0
	}
	return r.Status.Replicas - r.Status.UpdatedReplicas, r.Status.UpdatedReplicas
}

func (r Rollout) isCurrent() bool {
	return r.Metadata.Generation > 0 && r.Status.ObservedGeneration == strconv.FormatInt(r.Metadata.Generation, 10)
}

// String implements fmt.Stringer. It describes the state for a timeout message.
func (r Rollout) String() string {
	if r.Metadata.Name == "" {
		return "no Rollout has been seen"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the Rollout is %s", orNone(r.Status.Phase))
	if r.Status.CurrentStepIndex != nil {
		fmt.Fprintf(&b, " at step %d", *r.Status.CurrentStepIndex)
	}
	fmt.Fprintf(&b, ", %d of %d replicas ready", r.Status.ReadyReplicas, r.Spec.Replicas)
	if r.Status.Message != "" {
		fmt.Fprintf(&b, " (%s)", r.Status.Message)
	}
	return b.String()
}

func orNone(text string) string {
	if text == "" {
		return "without a phase"
	}
	return text
}

// HTTPScaledObject is the part of an HTTPScaledObject that the tests and the demo read.
type HTTPScaledObject struct {
	Metadata Metadata               `json:"metadata"`
	Status   HTTPScaledObjectStatus `json:"status"`
}

// HTTPScaledObjectStatus is the status, which the interceptor writes.
type HTTPScaledObjectStatus struct {
	// DataPlane is nil before the first report.
	DataPlane *DataPlane `json:"dataPlane,omitempty"`
}

// DataPlane is the part of an HTTPScaledObject that the proxies have acknowledged.
type DataPlane struct {
	// AnnotationHash is the SHA-256 of the reported annotation text in hexadecimal digits; empty for no annotation.
	AnnotationHash string `json:"annotationHash"`
	// Proxies counts the Ready proxies, and those of them that have acknowledged the annotation.
	Proxies struct {
		Ready int `json:"ready"`
		Acked int `json:"acked"`
	} `json:"proxies"`
	// Effective reports whether all of them split requests by the annotation.
	Effective bool `json:"effective"`
}

// StatusAnnotation is the annotation with the interceptor's report, for a CRD of another owner whose status has no
// field for it.
const StatusAnnotation = "http.kedify.io/status"

// report returns the report on the proxies from the status or the annotation; nil if there is none.
func (h HTTPScaledObject) report() *DataPlane {
	if h.Status.DataPlane != nil {
		return h.Status.DataPlane
	}
	var annotated HTTPScaledObjectStatus
	if err := json.Unmarshal([]byte(h.Metadata.Annotations[StatusAnnotation]), &annotated); err != nil {
		return nil
	}
	return annotated.DataPlane
}

// WeightsHash returns the hash that identifies an annotation text in a report.
func WeightsHash(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Acked reports whether there is at least one Ready proxy and all Ready proxies have acknowledged the present
// annotation.
func (h HTTPScaledObject) Acked() bool {
	report := h.report()
	return report != nil && report.AnnotationHash == WeightsHash(h.Metadata.Annotations[WeightsAnnotation]) &&
		report.Proxies.Ready > 0 && report.Proxies.Acked == report.Proxies.Ready
}

// AckedWeights returns a short form of the acknowledged state: the weights if all proxies have acknowledged the present
// annotation, otherwise "n of m".
func (h HTTPScaledObject) AckedWeights() string {
	report := h.report()
	text := h.Metadata.Annotations[WeightsAnnotation]
	switch {
	case report == nil:
		return "none"
	case h.Acked():
		return ShortWeights(text)
	case report.AnnotationHash != WeightsHash(text):
		return fmt.Sprintf("0 of %d", report.Proxies.Ready) // the report is about an earlier annotation
	default:
		return fmt.Sprintf("%d of %d", report.Proxies.Acked, report.Proxies.Ready)
	}
}

// Weights returns the text of the weights annotation without its newline; empty if there is none.
func (h HTTPScaledObject) Weights() (text string, present bool) {
	text, present = h.Metadata.Annotations[WeightsAnnotation]
	return strings.TrimSpace(text), present
}

// WeightsText returns the annotation for a canary weight, in the guide's format.
func WeightsText(stable, canary string, weight int) string {
	return fmt.Sprintf("- service: %s\n  weight: %d\n- service: %s\n  weight: %d", stable, 100-weight, canary, weight)
}

// ShortWeights returns a short form of an annotation: its weights separated by slashes, or a dash for none.
func ShortWeights(text string) string {
	if text == "" {
		return "–"
	}
	matches := regexp.MustCompile(`(?m)^\s*(?:- )?weight:\s*(\d+)\s*$`).FindAllStringSubmatch(text, -1)
	if matches == nil {
		return "unreadable"
	}
	weights := make([]string, 0, len(matches))
	for _, match := range matches {
		weights = append(weights, match[1])
	}
	return strings.Join(weights, "/")
}
