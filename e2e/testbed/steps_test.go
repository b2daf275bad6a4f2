package testbed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
)

// TestPassedSteps: a step is verified if the status that contains the next step has its weight as verified.
func TestPassedSteps(t *testing.T) {
	const prefix = "step 0 with weight 20 was passed at +1.000 s with "
	for _, test := range []struct {
		name, weights string
		want          []string
	}{
		{"verified", `{"canary": {"weight": 20}, "verified": true}`, nil},
		{"not verified", `{"canary": {"weight": 20}, "verified": false}`, []string{prefix + "weight 20, verified false"}},
		{"without a verification", `{"canary": {"weight": 20}}`, []string{prefix + "weight 20, not verified"}},
		{"another weight", `{"canary": {"weight": 0}, "verified": true}`, []string{prefix + "weight 0, verified true"}},
		{"no weight", `null`, []string{prefix + "no weight"}},
	} {
		r := newRecord()
		for second, state := range []string{`0, "canary": {}`, `1, "canary": {"weights": ` + test.weights + `}`, `0`} {
			r.addRollout(inside.Version{Seen: start().Add(time.Duration(second) * time.Second), Value: fmt.Appendf(nil,
				`{"spec": {"strategy": {"canary": {"steps": [{"setWeight": 20}, {"pause": {}}, {"setWeight": 50}]}}},
				"status": {"currentStepIndex": %s}}`, state)})
		}
		weights, unverified := r.PassedSteps(start())
		if !slices.Equal(weights, []int{20}) {
			t.Errorf("%s: passed %v, want 20", test.name, weights)
		}
		if diff := cmp.Diff(test.want, unverified); diff != "" {
			t.Errorf("%s: unverified steps (-want +got):\n%s", test.name, diff)
		}
		if weights, _ := r.PassedSteps(start().Add(2 * time.Second)); len(weights) > 0 {
			t.Errorf("%s: passed %v later, want none", test.name, weights)
		}
	}
}
