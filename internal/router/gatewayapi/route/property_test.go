package route

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seeds is the number of routes that each property is checked on.
const seeds = 80

// rest returns the Intent of a Rollout after a canary.
func rest(want Intent) Intent {
	want.Weights, want.ManagedRoutes = &Weights{Stable: 100}, &[]ManagedRoute{}
	return want
}

// must applies Intents one after the other.
func must(t *testing.T, object map[string]any, wants ...Intent) map[string]any {
	t.Helper()
	for _, want := range wants {
		changed, _, err := Apply(object, want)
		if err != nil {
			t.Fatalf("Apply(%+v): %v", want, err)
		}
		object = changed
	}
	return object
}

// each checks a property on routes of both kinds, with and without rule names.
func each(t *testing.T, property func(t *testing.T, g generator, kind Kind, named bool)) {
	t.Helper()
	for _, kind := range []Kind{HTTPRoute, GRPCRoute} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/named=%t", kind, named), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(seeds) {
					property(t, newGenerator(seed), kind, named)
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

// same compares two routes byte by byte.
func same(t *testing.T, what string, want, got map[string]any) {
	t.Helper()
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if string(a) != string(b) {
		t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

// TestRemoveOwnersRestoresTheOriginal: a route with the weights of a Rollout at rest is restored byte by byte after any
// number of calls of two Rollouts, when both have ended.
func TestRemoveOwnersRestoresTheOriginal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		original := g.object(kind, named)
		object := original
		for range 1 + g.IntN(6) {
			object = must(t, object, g.intent(kind, named, g.IntN(2)))
		}
		app, api := rest(g.intent(kind, named, 0)), rest(g.intent(kind, named, 1))
		app.Label, api.Label = usual().Label, usual().Label
		same(t, "after the end of both", original, must(t, object, app, api))
	})
}

// TestRemoveOwnersKeepsOtherWeights: weights that the user omitted or set to other values are 100 and 0 at the end. A
// canary leaves no other trace.
func TestRemoveOwnersKeepsOtherWeights(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		want := g.object(kind, named)
		original := cloneMap(want)
		eachPair(original, func(_ []any, stable, canary map[string]any) {
			delete(stable, "weight")
			canary["weight"] = int64(g.IntN(50))
		})
		same(t, "after the end", want, must(t, original, g.intent(kind, named, 0), rest(g.intent(kind, named, 0))))
	})
}

// TestNothingUnrelatedChanges: only what the Rollout owns changes. Without the managed rules, the destinations, the
// record, the label and the sessions, and with the original weights of the pair, the route is the original. The weights
// of each pair and its destinations add up to 100 in every rule.
func TestNothingUnrelatedChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		original := g.object(kind, named)
		want := g.intent(kind, named, 0)
		changed := must(t, original, want)
		sums(t, changed, want.Weights != nil)
		checkSessions(t, changed, want)
		same(t, "the rest of the route", original, stripped(t, original, changed))
	})
}

// sums checks the weights of shop/app's Services in every rule that has both.
func sums(t *testing.T, object map[string]any, weighted bool) {
	t.Helper()
	if !weighted {
		return
	}
	seen := 0
	eachPair(object, func(refs []any, _, _ map[string]any) {
		var sum int64
		for _, ref := range refs {
			ref := ref.(map[string]any)
			if ref["namespace"] == nil && slices.Contains([]any{"app-stable", "app-canary", "exp-0-0", "exp-0-1"}, ref["name"]) {
				sum += ref["weight"].(int64)
			}
		}
		if sum != 100 {
			t.Errorf("the weights add up to %d: %v", sum, refs)
		}
		seen++
	})
	if seen == 0 {
		t.Error("no rule has both Services")
	}
}

// usersOf returns the rules with the matches of a user's rule, in the user's order; every match of a managed rule has
// more conditions.
func usersOf(users, rules []any) []any {
	var found []any
	for _, r := range rules {
		if len(found) < len(users) && cmp.Equal(users[len(found)].(map[string]any)["matches"],
			r.(map[string]any)["matches"]) {
			found = append(found, r)
		}
	}
	return found
}

// pairRules returns the rules in which shop/app has both Services.
func pairRules(object map[string]any) []map[string]any {
	var rules []map[string]any
	for _, r := range object["spec"].(map[string]any)["rules"].([]any) {
		one := map[string]any{"spec": map[string]any{"rules": []any{r}}}
		eachPair(one, func([]any, map[string]any, map[string]any) { rules = append(rules, r.(map[string]any)) })
	}
	return rules
}

// checkSessions checks that the rules in which shop/app has both Services have exactly the sessions of want.
func checkSessions(t *testing.T, object map[string]any, want Intent) {
	t.Helper()
	for i, fields := range pairRules(object) {
		var sessions any
		if want.SplitsSessions() {
			sessions = want.Sessions.value()
		}
		if !equal(fields[sessionField], sessions) {
			t.Errorf("rule %d with both Services has the sessions %v, want %v", i, fields[sessionField], sessions)
		}
	}
}

// eachPair calls visit for every rule in which shop/app has both Services.
func eachPair(object map[string]any, visit func(refs []any, stable, canary map[string]any)) {
	for _, r := range object["spec"].(map[string]any)["rules"].([]any) {
		refs := r.(map[string]any)["backendRefs"].([]any)
		find := func(name string) map[string]any {
			for _, ref := range refs {
				if ref := ref.(map[string]any); ref["name"] == name && ref["namespace"] == nil {
					return ref
				}
			}
			return nil
		}
		if stable, canary := find("app-stable"), find("app-canary"); stable != nil && canary != nil {
			visit(refs, stable, canary)
		}
	}
}

// stripped removes what shop/app can have added to a route: new rules by their difference from the user's, and the rest
// by name.
func stripped(t *testing.T, original, changed map[string]any) map[string]any {
	t.Helper()
	object := cloneMap(changed)
	spec := object["spec"].(map[string]any)
	users := original["spec"].(map[string]any)["rules"].([]any)
	spec["rules"] = usersOf(users, spec["rules"].([]any))
	for _, r := range spec["rules"].([]any) {
		fields := r.(map[string]any)
		fields["backendRefs"] = slices.DeleteFunc(fields["backendRefs"].([]any), func(ref any) bool {
			return slices.Contains([]any{"exp-0-0", "exp-0-1"}, ref.(map[string]any)["name"])
		})
	}
	eachPair(object, func(_ []any, stable, canary map[string]any) {
		stable["weight"], canary["weight"] = int64(100), int64(0)
	})
	for _, fields := range pairRules(object) {
		delete(fields, sessionField) // checkSessions has compared them, and no author has any there
	}
	metadata := object["metadata"].(map[string]any)
	for field, key := range map[string]string{"annotations": Annotation, "labels": usual().Label.Key} {
		if entries, is := metadata[field].(map[string]any); is {
			delete(entries, key)
			if len(entries) == 0 {
				delete(metadata, field)
			}
		}
	}
	return object
}

// TestRepeatedCallsChangeNothing: repeating a call changes nothing, also after a call of another Rollout.
func TestRepeatedCallsChangeNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		app, api := g.intent(kind, named, 0), g.intent(kind, named, 1)
		object := must(t, g.object(kind, named), app, api)
		for _, want := range []Intent{app, api, app} {
			again, report, err := Apply(object, want)
			if err != nil || report.Changed {
				t.Errorf("%s: changed %t, %v\n%s", want.Rollout, report.Changed, err, cmp.Diff(object, again))
			}
		}
	})
}

// TestOrderOfWeightsAndManagedRoutes: weights and managed routes may be set in any order, or together.
func TestOrderOfWeightsAndManagedRoutes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		object := g.object(kind, named)
		both := g.intent(kind, named, 0)
		weights, managed := both, both
		weights.ManagedRoutes, managed.Weights = nil, nil
		together := must(t, object, both)
		same(t, "weights, then managed routes", together, must(t, object, weights, managed))
		same(t, "managed routes, then weights", together, must(t, object, managed, weights))
	})
}

// TestOrderOfTwoRolloutsDoesNotMatter: two Rollouts on one route may be applied in any order. (Of managed routes with
// the same name, the first one has the name without a number.)
func TestOrderOfTwoRolloutsDoesNotMatter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		object := g.object(kind, named)
		app, api := g.intent(kind, named, 0), g.intent(kind, named, 1)
		same(t, "app then api, against api then app", must(t, object, app, api), must(t, object, api, app))
	})
}

// TestHeaderRoutesReachTheCanary: header routes have the canary as their only backend, with weight.
func TestHeaderRoutesReachTheCanary(t *testing.T) {
	t.Parallel()
	headers := 0
	for seed := range uint64(seeds) {
		g := newGenerator(seed)
		want := g.intent(HTTPRoute, true, 0)
		managed := []ManagedRoute{
			{Name: "a", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}},
			{Name: "b", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "dev"}}},
		}
		want.ManagedRoutes = &managed
		original := g.object(HTTPRoute, true)
		changed := must(t, original, want)["spec"].(map[string]any)["rules"].([]any)
		for i, r := range changed {
			if name, _ := r.(map[string]any)["name"].(string); name == "" || strings.HasPrefix(name, "user-") {
				continue
			}
			refs := r.(map[string]any)["backendRefs"].([]any)
			if ref := refs[0].(map[string]any); len(refs) != 1 || ref["name"] != "app-canary" || ref["weight"] != int64(1) ||
				ref["filters"] == nil {
				t.Fatalf("seed %d: the backends of managed rule %d are %v", seed, i, refs)
			}
			headers++
		}
	}
	if headers < 2*seeds {
		t.Errorf("only %d managed rules in %d routes", headers, seeds)
	}
}
