package route

import (
	"errors"
	"strings"
	"testing"
)

// TestSessionProblem: only the conditions of parents in spec.parentRefs count, about the current generation, and only if
// they name the sessions.
func TestSessionProblem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		parent, condition string
		want              bool
	}{
		"the sessions": {
			"edge", "{type: Accepted, status: 'False', reason: UnsupportedValue, observedGeneration: 3, message: SessionPersistence}",
			true,
		},
		"a filter": {
			"edge", "{type: Accepted, status: 'False', reason: UnsupportedValue, observedGeneration: 3, message: filter}", false,
		},
		"another reason": {
			"edge", "{type: Accepted, status: 'False', reason: NoMatchingParent, observedGeneration: 3, message: session}", false,
		},
		"an earlier generation": {
			"edge", "{type: Accepted, status: 'False', reason: UnsupportedValue, observedGeneration: 2, message: session}", false,
		},
		"a former parent": {
			"old", "{type: Accepted, status: 'False', reason: UnsupportedValue, observedGeneration: 3, message: session}", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := decode(t, []byte("{kind: HTTPRoute, metadata: {namespace: shop, generation: 3}, "+
				"spec: {parentRefs: [{name: edge}]}, status: {parents: [{parentRef: {name: "+test.parent+
				"}, controllerName: x, conditions: ["+test.condition+"]}]}}"))
			if got := SessionProblem(object); (got != "") != test.want {
				t.Errorf("SessionProblem: %q, want a problem: %v", got, test.want)
			}
		})
	}
}

// TestSessionsError: an invalid configuration of the sessions is an error for a weight that rises, also that of an
// experiment. Other weights are written, and the sessions stay.
func TestSessionsError(t *testing.T) {
	t.Parallel()
	canary := usual()
	canary.Sessions, canary.ManagedRoutes = Sessions{Name: "side"}, nil
	canary.Weights = &Weights{Stable: 70, Canary: 20, Others: []Destination{{Service: "app-trial", Weight: 10}}}
	object := must(t, decode(t, []byte("{kind: HTTPRoute, metadata: {namespace: shop}, spec: {rules: [{backendRefs: "+
		"[{name: app-stable}, {name: app-canary}]}]}}")), canary)
	for name, test := range map[string]struct {
		weights Weights
		raises  bool
	}{
		"the same":              {*canary.Weights, false},
		"lower":                 {Weights{Stable: 90, Canary: 10}, false},
		"only the stable one":   {Weights{Stable: 100}, false},
		"a higher canary":       {Weights{Stable: 75, Canary: 25}, true},
		"a higher experiment":   {Weights{Stable: 69, Canary: 20, Others: []Destination{{Service: "app-trial", Weight: 11}}}, true},
		"another experiment":    {Weights{Stable: 89, Canary: 10, Others: []Destination{{Service: "app-more", Weight: 1}}}, true},
		"a higher, full weight": {Weights{Canary: 100}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := canary
			want.Sessions, want.SessionsError, want.Weights = Sessions{}, errors.New("no such key"), &test.weights
			changed, report, err := Apply(object, want)
			if (err != nil) != test.raises || err != nil && !strings.Contains(err.Error(), "no such key") {
				t.Fatalf("Apply: %v, want an error: %v", err, test.raises)
			}
			if err != nil {
				return
			}
			rule := changed["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
			if (rule[sessionField] != nil) != want.splits() || (report.SessionError != nil) != want.splits() {
				t.Errorf("sessions %v, SessionError %v", rule[sessionField], report.SessionError)
			}
		})
	}
}
