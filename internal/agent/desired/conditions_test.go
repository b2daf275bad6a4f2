package desired_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// TestHasConditions: a condition about an earlier generation of the object is written again, also if nothing else of it
// has changed.
func TestHasConditions(t *testing.T) {
	t.Parallel()
	accepted := metav1.Condition{Type: httpv1alpha1.ConditionTriggerAccepted, Status: metav1.ConditionTrue, Reason: "R", Message: "m"}
	present := accepted
	present.ObservedGeneration = 2
	for generation, want := range map[int64]bool{2: true, 3: false} {
		object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		object.Status.Conditions = []metav1.Condition{present}
		if got := desired.HasConditions(object, []metav1.Condition{accepted}); got != want {
			t.Errorf("generation %d: %v, want %v", generation, got, want)
		}
	}
}
