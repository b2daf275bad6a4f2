package autowire

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// mostRestored is how often somebody may restore an object before it is left to them.
	mostRestored = 5
	// restoredWithin is how long after the last time it counts as once more.
	restoredWithin = time.Hour
)

// hold says why an object was unwired, and when. It stands on the object, in the annotation
// http.kedify.io/autowire-hold, so that the agent's end does not shorten it.
type hold struct {
	// Reason is ReasonProxyUnavailable or ReasonRestored.
	Reason string `json:"reason"`
	// At is when.
	At time.Time `json:"at"`
	// By is the field manager that restored it, and Times how often.
	By    string `json:"by,omitempty"`
	Times int    `json:"times,omitempty"`
}

// holdOf reads the hold of an object. One that cannot be read counts as none.
func holdOf(object metav1.Object) hold {
	var found hold
	if json.Unmarshal([]byte(object.GetAnnotations()[httpv1alpha1.AnnotationAutowireHold]), &found) != nil {
		return hold{}
	}
	return found
}

// text is how a hold stands on the object; empty for none.
func (h hold) text() (string, error) {
	if h.Reason == "" {
		return "", nil
	}
	h.At = h.At.UTC().Truncate(time.Second)
	text, err := json.Marshal(h)
	return string(text), err
}

// restored is the hold of an object that somebody restored while it was wired.
func (h hold) restored(by string, now time.Time) hold {
	next := hold{Reason: httpv1alpha1.ReasonRestored, At: now, By: by, Times: 1}
	if h.Reason == next.Reason && now.Sub(h.At) < restoredWithin {
		next.Times = h.Times + 1
	}
	return next
}

// isForGood says that the object is left as it is until somebody removes the annotation.
func (h hold) isForGood() bool { return h.Times >= mostRestored }

// rest is how much longer nothing is wired: the cool-down after the proxies were lost; nothing after the first
// time that somebody restored the object, which an ordinary kubectl apply does, and then ever longer.
func (h hold) rest(coolDown time.Duration, now time.Time) time.Duration {
	wait := coolDown
	if h.Reason != httpv1alpha1.ReasonProxyUnavailable {
		wait *= time.Duration(1)<<min(max(h.Times-1, 0), mostRestored) - 1
	}
	return max(0, wait-now.Sub(h.At))
}

// writer is the field manager that last wrote the spec of an object, other than the agent.
func writer(object metav1.Object) string {
	others := slices.DeleteFunc(slices.Clone(object.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == httpv1alpha1.ManagedByAgent || entry.Subresource != "" ||
			entry.FieldsV1 == nil || !strings.Contains(string(entry.FieldsV1.Raw), `"f:spec"`)
	})
	if len(others) == 0 {
		return "somebody"
	}
	return slices.MaxFunc(others, func(a, b metav1.ManagedFieldsEntry) int {
		return at(a).Compare(at(b))
	}).Manager
}

// at is when a field manager last wrote.
func at(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}
