package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// labelsOf returns the labels of a route.
func labelsOf(object map[string]any) map[string]any {
	labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
	return labels
}

// TestOtherLabelsStay has Rollouts that configure any label of a user's route as their in-progress label.
func TestOtherLabelsStay(t *testing.T) {
	t.Parallel()
	const (
		both    = "[{name: app-stable, port: 80, weight: 100}, {name: app-canary, port: 80, weight: 0}]"
		neither = "[{name: other, port: 80}]"
	)
	at := func(weight int32) *Weights { return &Weights{Stable: 100 - weight, Canary: weight} }
	none := &[]ManagedRoute{}
	tests := map[string]struct {
		backends string
		labels   string
		label    Label
		weights  []*Weights
		want     map[string]any
	}{
		"a user's, by a Rollout with both Services there": {
			both, "{team: shop}",
			Label{"team", "shop"},
			[]*Weights{at(0)},
			map[string]any{"team": "shop"},
		},
		"after its canary": {
			both, "{team: shop}",
			Label{"team", "shop"},
			[]*Weights{at(20), at(0)},
			map[string]any{"team": "shop"},
		},
		"a user's, with another value": {
			both, "{team: shop}",
			Label{"team", "x"},
			[]*Weights{at(20)},
			map[string]any{"team": "shop"},
		},
		"a user's, by a Rollout without any Service": {
			neither, "{team: shop}",
			Label{"team", "shop"},
			[]*Weights{nil},
			map[string]any{"team": "shop"},
		},
		"the argoproj-labs plugin's, by a Rollout without any Service": {
			neither, "{rollouts.argoproj.io/gatewayapi-canary: in-progress}",
			Label{DefaultLabelKey, "in-progress"},
			[]*Weights{nil},
			map[string]any{DefaultLabelKey: "in-progress"},
		},
		"the argoproj-labs plugin's": {
			both, "{rollouts.argoproj.io/gatewayapi-canary: in-progress}",
			Label{DefaultLabelKey, "in-progress"},
			[]*Weights{at(0)},
			nil,
		},
		"its own": {both, "{}", Label{"example.com/a", "yes"}, []*Weights{at(20), at(0)}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := decode(t, []byte("kind: HTTPRoute\nmetadata: {name: r, namespace: shop, "+
				"labels: "+test.labels+"}\nspec: {rules: [{backendRefs: "+test.backends+"}]}"))
			for _, weights := range test.weights {
				want := usual()
				want.Label, want.Weights, want.ManagedRoutes = &test.label, weights, none
				changed, _, err := Apply(object, want)
				if err != nil {
					t.Fatal(err)
				}
				object = changed
			}
			if diff := cmp.Diff(test.want, labelsOf(object)); diff != "" && len(test.want)+len(labelsOf(object)) > 0 {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLostRecordIsRebuilt has a route whose record was removed by a GitOps tool: the managed rules still exist.
func TestLostRecordIsRebuilt(t *testing.T) {
	t.Parallel()
	for title, test := range map[string]struct {
		fails bool
		edit  func(rule map[string]any)
	}{
		"as it was": {},
		"a user's rule of the name": {
			edit:  func(rule map[string]any) { rule["timeouts"] = map[string]any{"request": "1s"} },
			fails: true,
		},
		"a user's rule with another backend": {edit: func(rule map[string]any) {
			rule["backendRefs"] = []any{map[string]any{"name": "other", "port": int64(80)}}
		}, fails: true},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			want := usual()
			want.Weights = &Weights{Stable: 80, Canary: 20}
			before := withHeaderRoute(t, want, "none")
			want.ManagedRoutes = &[]ManagedRoute{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}}}
			delete(before["metadata"].(map[string]any)["annotations"].(map[string]any), Annotation)
			rules := rulesOf(before)
			if test.edit != nil {
				test.edit(rules[len(rules)-1].(map[string]any))
			}
			want.Weights = &Weights{Stable: 50, Canary: 50}
			after, _, err := Apply(before, want)
			if (err != nil) != test.fails {
				t.Fatalf("Apply: %v, want an error: %v", err, test.fails)
			}
			if err != nil {
				return
			}
			if len(rulesOf(after)) != len(rules) || Owners(stringField(after["metadata"].(map[string]any)["annotations"].(map[string]any), Annotation, "")) == nil {
				t.Errorf("%d rules, were %d; annotations %v", len(rulesOf(after)), len(rules), after["metadata"])
			}
			want.ManagedRoutes = &[]ManagedRoute{}
			if last, _, err := Apply(after, want); err != nil || len(rulesOf(last)) != len(rules)-1 {
				t.Errorf("the end: %v, %d rules", err, len(rulesOf(last)))
			}
		})
	}
}

// TestPreviousRuleIsReset changes the ruleName of a Rollout during a canary.
func TestPreviousRuleIsReset(t *testing.T) {
	t.Parallel()
	const backends = "backendRefs: [{name: app-stable, port: 80, weight: 100}, {name: app-canary, port: 80, weight: 0}]"
	object := decode(t, []byte("kind: HTTPRoute\nmetadata: {name: r, namespace: shop}\nspec: {rules: "+
		"[{name: a, "+backends+"}, {name: b, "+backends+"}]}"))
	weightsOf := func(at int) []any {
		refs := rulesOf(object)[at].(map[string]any)["backendRefs"].([]any)
		return []any{refs[0].(map[string]any)["weight"], refs[1].(map[string]any)["weight"]}
	}
	for _, step := range []struct {
		rule string
		want [2][]any
	}{
		{"a", [2][]any{{int64(80), int64(20)}, {int64(100), int64(0)}}},
		{"b", [2][]any{{int64(100), int64(0)}, {int64(80), int64(20)}}},
		{"", [2][]any{{int64(80), int64(20)}, {int64(80), int64(20)}}},
		{"a", [2][]any{{int64(80), int64(20)}, {int64(100), int64(0)}}},
	} {
		want := usual()
		want.RuleName, want.Weights = step.rule, &Weights{Stable: 80, Canary: 20}
		changed, _, err := Apply(object, want)
		if err != nil {
			t.Fatal(err)
		}
		object = changed
		if diff := cmp.Diff(step.want, [2][]any{weightsOf(0), weightsOf(1)}); diff != "" {
			t.Errorf("rule %q: weights (-want +got):\n%s", step.rule, diff)
		}
	}
}
