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
	// maxRestores is how many times another field manager may restore an object before the agent stops rewriting
	// it.
	maxRestores = 5
	// restoreWindow is how long a restore counts: one within this time after the previous one increments the
	// count.
	restoreWindow = time.Hour
)

// coolDown records why and when an object's backends were restored. It is stored on the object, in annotation
// http.kedify.io/autowire-hold, so that a restart of the agent does not shorten it.
type coolDown struct {
	// Reason is ReasonProxyUnavailable or ReasonBackendRevertedByOther.
	Reason string `json:"reason"`
	// At is the time of the restore.
	At time.Time `json:"at"`
	// By is the field manager that restored the object, and Times is how many times it did.
	By    string `json:"by,omitempty"`
	Times int    `json:"times,omitempty"`
}

// coolDownOf reads the cool-down of an object. An unreadable one is ignored.
func coolDownOf(object metav1.Object) coolDown {
	var state coolDown
	if json.Unmarshal([]byte(object.GetAnnotations()[httpv1alpha1.AnnotationAutowireHold]), &state) != nil {
		return coolDown{}
	}
	return state
}

// encode returns the value of the annotation, empty for no cool-down.
func (c coolDown) encode() (string, error) {
	if c.Reason == "" {
		return "", nil
	}
	c.At = c.At.UTC().Truncate(time.Second)
	text, err := json.Marshal(c)
	return string(text), err
}

// afterRestore returns the cool-down of an object that another field manager restored while it was wired.
func (c coolDown) afterRestore(by string, now time.Time) coolDown {
	next := coolDown{Reason: httpv1alpha1.ReasonBackendRevertedByOther, At: now, By: by, Times: 1}
	if c.Reason == next.Reason && now.Sub(c.At) < restoreWindow {
		next.Times = c.Times + 1
	}
	return next
}

// isPermanent reports whether the object stays as it is until a user removes the annotation.
func (c coolDown) isPermanent() bool { return c.Times >= maxRestores }

// remaining returns how much longer nothing is rewritten. After the proxies became unavailable it is the cool-down
// period. After the first restore it is zero, because an ordinary kubectl apply causes one. It doubles with every
// further restore.
func (c coolDown) remaining(period time.Duration, now time.Time) time.Duration {
	wait := period
	if c.Reason != httpv1alpha1.ReasonProxyUnavailable {
		wait *= time.Duration(1)<<min(max(c.Times-1, 0), maxRestores) - 1
	}
	return max(0, wait-now.Sub(c.At))
}

// lastSpecManager returns the field manager, other than the agent, that last wrote the spec of an object.
func lastSpecManager(object metav1.Object) string {
	last := lastSpecEntry(object.GetManagedFields())
	if len(last) == 0 {
		return "an unknown field manager"
	}
	return last[0].Manager
}

// lastSpecEntry returns the entry of lastSpecManager, if there is one.
func lastSpecEntry(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	others := slices.DeleteFunc(slices.Clone(entries), func(entry metav1.ManagedFieldsEntry) bool {
		return isAgents(entry) || entry.Subresource != "" ||
			entry.FieldsV1 == nil || !strings.Contains(string(entry.FieldsV1.Raw), specField)
	})
	if len(others) == 0 {
		return nil
	}
	return []metav1.ManagedFieldsEntry{slices.MaxFunc(others, func(a, b metav1.ManagedFieldsEntry) int {
		return updateTime(a).Compare(updateTime(b))
	})}
}

// specField is the spec among the fields of an entry of metadata.managedFields.
const specField = `"f:spec"`

// trimManagers returns the entries of metadata.managedFields that a plan reads, with the fields that it reads of them.
func trimManagers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	kept := lastSpecEntry(entries)
	for i := range kept {
		kept[i].FieldsV1 = &metav1.FieldsV1{Raw: []byte("{" + specField + ":{}}")}
	}
	if at := slices.IndexFunc(entries, isAgents); at >= 0 {
		kept = append(kept, metav1.ManagedFieldsEntry{Manager: entries[at].Manager, Operation: entries[at].Operation})
	}
	return kept
}

// updateTime returns the time of a field manager's last write.
func updateTime(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}
