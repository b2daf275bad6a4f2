package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// indexedController is a controller that names the resources of a rule by its index.
const indexedController = "gateway.envoyproxy.io/gatewayclass-controller"

// withHeaderRoute returns a route with two rules of a user, followed by the managed rules of qa.
func withHeaderRoute(t *testing.T, want Intent, controller string) map[string]any {
	t.Helper()
	object := decode(t, []byte(`
kind: `+string(want.Kind)+`
metadata: {name: r, namespace: shop}
spec:
  parentRefs: [{name: gateway}]
  rules:
    - matches: [{path: {type: PathPrefix, value: /a}}, {path: {type: PathPrefix, value: /b}}]
      backendRefs: [{name: app-stable, port: 80, weight: 80}, {name: app-canary, port: 80, weight: 20}]
    - matches: [{path: {type: PathPrefix, value: /other}}]
      backendRefs: [{name: other, port: 80}]
status: {parents: [{parentRef: {name: gateway}, controllerName: `+controller+`}]}
`))
	want.ManagedRoutes = &[]ManagedRoute{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}}}
	object, _, err := Apply(object, want)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// rulesOf returns the rules of a route.
func rulesOf(object map[string]any) []any {
	rules, _ := object["spec"].(map[string]any)["rules"].([]any)
	return rules
}

// TestStagedRemoval: a managed rule to be removed first stays in its place with a condition that no request meets.
func TestStagedRemoval(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		want := usual()
		want.HasRuleNames = named
		before := withHeaderRoute(t, want, indexedController)
		want.ManagedRoutes = &[]ManagedRoute{}
		direct, _, err := Apply(before, want)
		if err != nil {
			t.Fatal(err)
		}
		after := Staged(before, want, direct)
		if after == nil {
			t.Fatalf("named %v: nothing is retired", named)
		}
		if diff := cmp.Diff(rulesOf(before)[:2], rulesOf(after)[:2]); diff != "" {
			t.Errorf("named %v: the user's rules (-before +after):\n%s", named, diff)
		}
		matches, _ := rulesOf(after)[2].(map[string]any)["matches"].([]any)
		for _, match := range matches {
			headers, _ := match.(map[string]any)["headers"].([]any)
			last, _ := headers[len(headers)-1].(map[string]any)
			if len(headers) != 2 || last["name"] != unmatchableHeader {
				t.Errorf("named %v: a matchable match: %v", named, match)
			}
		}
		if len(matches) != 2 {
			t.Errorf("named %v: %d matches", named, len(matches))
		}
		last, report, err := Apply(after, want)
		if Staged(after, want, last) != nil {
			t.Errorf("named %v: retired twice", named)
		}
		if diff := cmp.Diff(direct, last); diff != "" || err != nil || len(report.Warnings) > 0 {
			t.Errorf("named %v: what is left (-without retiring +with it): %v %v\n%s", named, err, report.Warnings, diff)
		}
	}
}

// TestStagedAddition: an added managed rule first has a condition that no request meets. Weights of the same change are
// written immediately.
func TestStagedAddition(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		want := usual()
		want.HasRuleNames = named
		with := withHeaderRoute(t, want, indexedController)
		none := want
		none.ManagedRoutes = &[]ManagedRoute{}
		before, _, err := Apply(with, none)
		if err != nil {
			t.Fatal(err)
		}
		want.Weights = &Weights{Stable: 70, Canary: 30}
		want.ManagedRoutes = &[]ManagedRoute{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}}}
		direct, _, err := Apply(before, want)
		if err != nil {
			t.Fatal(err)
		}
		after := Staged(before, want, direct)
		if after == nil || len(rulesOf(after)) != len(rulesOf(direct)) {
			t.Fatalf("named %v: between is %v", named, after)
		}
		if diff := cmp.Diff(rulesOf(direct)[:2], rulesOf(after)[:2]); diff != "" {
			t.Errorf("named %v: the user's rules (-at last +between):\n%s", named, diff)
		}
		matches, _ := rulesOf(after)[2].(map[string]any)["matches"].([]any)
		for _, match := range matches {
			headers, _ := match.(map[string]any)["headers"].([]any)
			if last, _ := headers[len(headers)-1].(map[string]any); len(headers) != 2 || last["name"] != unmatchableHeader {
				t.Errorf("named %v: a matchable match: %v", named, match)
			}
		}
		last, report, err := Apply(after, want)
		if Staged(after, want, last) != nil {
			t.Errorf("named %v: staged twice", named)
		}
		if diff := cmp.Diff(direct, last); diff != "" || err != nil || len(report.Warnings) > 0 || len(matches) != 2 {
			t.Errorf("named %v: what is there at last (-at once +after it): %v %v\n%s", named, err, report.Warnings, diff)
		}
	}
}

// TestNothingToStage: without removed or added rules, or without a controller that indexes rules, nothing is staged.
func TestNothingToStage(t *testing.T) {
	t.Parallel()
	none, same := &[]ManagedRoute{}, &[]ManagedRoute{{
		Name:   "qa",
		Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}},
	}}
	other := &[]ManagedRoute{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "dev"}}}}
	tests := []struct {
		name, controller string
		managed          *[]ManagedRoute
		weights          *Weights
		want             bool
	}{
		{name: "the header route goes", controller: indexedController, managed: none, want: true},
		{name: "it is removed, and no controller indexes rules", controller: "traefik.io/gateway-controller", managed: none},
		{name: "it stays", controller: indexedController, managed: same},
		{name: "another one replaces it", controller: indexedController, managed: other},
		{name: "weights", controller: indexedController, weights: &Weights{Stable: 50, Canary: 50}},
	}
	for _, tt := range tests {
		want := usual()
		before := withHeaderRoute(t, want, tt.controller)
		want.ManagedRoutes, want.Weights = tt.managed, tt.weights
		copied := cloneMap(before)
		applied, _, err := Apply(before, want)
		if retired := Staged(before, want, applied) != nil; err != nil || retired != tt.want {
			t.Errorf("%s: retired %v, want %v; %v", tt.name, retired, tt.want, err)
		}
		if diff := cmp.Diff(copied, before); diff != "" {
			t.Errorf("%s: Retired changed what it was given:\n%s", tt.name, diff)
		}
	}
}
