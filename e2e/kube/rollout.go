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

// WeightsAnnotation is where the router writes the split.
const WeightsAnnotation = "http.kedify.io/weighted-backends"

// Rollout is the part of a Rollout that the demo looks at.
type Rollout struct {
	Metadata Metadata      `json:"metadata"`
	Spec     RolloutSpec   `json:"spec"`
	Status   RolloutStatus `json:"status"`
}

// Metadata is the part of any object's metadata that the demo looks at.
type Metadata struct {
	Name        string            `json:"name"`
	Generation  int64             `json:"generation"`
	Annotations map[string]string `json:"annotations"`
}

// RolloutSpec is what is asked of a Rollout.
type RolloutSpec struct {
	Replicas int `json:"replicas"`
}

// RolloutStatus is how far the Rollout is.
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
	// Replicas counts the pods of both sides, UpdatedReplicas those of the newest
	// version: during a canary they are its own.
	Replicas        int `json:"replicas"`
	UpdatedReplicas int `json:"updatedReplicas"`
	PauseConditions []struct {
		Reason string `json:"reason"`
	} `json:"pauseConditions"`
	Canary struct {
		Weights *RolloutWeights `json:"weights"`
	} `json:"canary"`
}

// RolloutWeights are what the controller has asked its router for.
type RolloutWeights struct {
	Canary struct {
		Weight int `json:"weight"`
	} `json:"canary"`
	// Verified is the router's answer to whether that is in force; nil if it
	// was not asked yet.
	Verified *bool `json:"verified"`
}

// Healthy says whether the controller has seen the latest spec and all of it
// is running: nothing is being rolled out.
func (r Rollout) Healthy() bool {
	return r.isCurrent() && r.Status.Phase == "Healthy" && r.Status.StableRS != "" &&
		r.Status.StableRS == r.Status.CurrentPodHash
}

// Paused says whether the Rollout waits at a pause step, for a time or for a
// promotion.
func (r Rollout) Paused() bool {
	return r.isCurrent() && r.Status.Phase == "Paused" && len(r.Status.PauseConditions) > 0
}

// Sides are the pods of both sides. Without a canary all are stable.
func (r Rollout) Sides() (stable, canary int) {
	if r.Status.StableRS == r.Status.CurrentPodHash {
		return r.Status.Replicas, 0
	}
	return r.Status.Replicas - r.Status.UpdatedReplicas, r.Status.UpdatedReplicas
}

func (r Rollout) isCurrent() bool {
	return r.Metadata.Generation > 0 && r.Status.ObservedGeneration == strconv.FormatInt(r.Metadata.Generation, 10)
}

// String implements fmt.Stringer: what a user would want to know when it isn't
// where it should be.
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

// HTTPScaledObject is the part of an HTTPScaledObject that the demo looks at.
type HTTPScaledObject struct {
	Metadata Metadata               `json:"metadata"`
	Status   HTTPScaledObjectStatus `json:"status"`
}

// HTTPScaledObjectStatus is what the interceptor says about it.
type HTTPScaledObjectStatus struct {
	// DataPlane is nil while nothing was reported.
	DataPlane *DataPlane `json:"dataPlane,omitempty"`
}

// DataPlane is what the proxies have taken of an HTTPScaledObject.
type DataPlane struct {
	// AnnotationHash is the SHA-256 of the annotation's text that the report is
	// about, in hexadecimal digits; empty for no annotation.
	AnnotationHash string `json:"annotationHash"`
	// Proxies counts the Ready proxies, and those of them that have
	// acknowledged that annotation.
	Proxies struct {
		Ready int `json:"ready"`
		Acked int `json:"acked"`
	} `json:"proxies"`
	// Effective says whether requests are split so by all of them.
	Effective bool `json:"effective"`
}

// StatusAnnotation is where the interceptor reports on an object whose definition, somebody else's, has no
// place for it in the status.
const StatusAnnotation = "http.kedify.io/status"

// report is the report on the proxies, wherever it is kept; nil while there is none.
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

// WeightsHash is the hash by which reports name a text of the annotation.
func WeightsHash(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Acked says whether every Ready proxy, of at least one, has acknowledged the
// annotation as it stands here.
func (h HTTPScaledObject) Acked() bool {
	report := h.report()
	return report != nil && report.AnnotationHash == WeightsHash(h.Metadata.Annotations[WeightsAnnotation]) &&
		report.Proxies.Ready > 0 && report.Proxies.Acked == report.Proxies.Ready
}

// AckedWeights puts what the proxies have acknowledged into a few characters:
// the weights if all of them have the present annotation, otherwise how many
// of how many do.
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

// Weights is the text of the weights annotation without its line end; empty if
// there is none.
func (h HTTPScaledObject) Weights() (text string, present bool) {
	text, present = h.Metadata.Annotations[WeightsAnnotation]
	return strings.TrimSpace(text), present
}

// WeightsText is the annotation that stands for a canary weight, as the guide
// shows it.
func WeightsText(stable, canary string, weight int) string {
	return fmt.Sprintf("- service: %s\n  weight: %d\n- service: %s\n  weight: %d", stable, 100-weight, canary, weight)
}

// ShortWeights puts an annotation into a few characters: its weights with
// slashes between them, or a dash for none.
func ShortWeights(text string) string {
	if text == "" {
		return "–"
	}
	found := regexp.MustCompile(`(?m)^\s*(?:- )?weight:\s*(\d+)\s*$`).FindAllStringSubmatch(text, -1)
	if found == nil {
		return "unreadable"
	}
	weights := make([]string, 0, len(found))
	for _, match := range found {
		weights = append(weights, match[1])
	}
	return strings.Join(weights, "/")
}
