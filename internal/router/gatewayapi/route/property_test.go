package route

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seeds is the number of routes that each property is checked on.
const seeds = 80

// generator creates random routes and Intents: the same seed creates the same ones.
type generator struct{ *rand.Rand }

func newWorld(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 7))} }

// pick returns one of the values.
func pick[T any](g generator, among ...T) T { return among[g.IntN(len(among))] }

// pairs returns the pairs of Services that may split traffic on a route: that of shop/app and that of shop/api.
func pairs() [][2]string {
	return [][2]string{{"app-stable", "app-canary"}, {"api-stable", "api-canary"}}
}

// object returns an HTTPRoute or a GRPCRoute with one to three rules, the first of which has both pairs. The pairs have
// the weights 100 and 0 in every rule, as at rest.
func (g generator) object(kind Kind, named bool) map[string]any {
	rules := []any{}
	for i := range 1 + g.IntN(3) {
		fields := map[string]any{"backendRefs": g.backends(i == 0)}
		if matches := g.matches(kind, i); len(matches) > 0 {
			fields["matches"] = matches
		}
		if g.IntN(2) == 0 {
			fields["filters"] = []any{map[string]any{"type": "ExtensionRef",
				"extensionRef": map[string]any{"name": fmt.Sprint("f", g.IntN(3))}}}
		}
		if g.IntN(3) == 0 {
			fields["timeouts"], fields["unheardOf"] = map[string]any{"request": "3s"},
				map[string]any{"x": 1.5, "y": []any{true, nil}}
		}
		if named && g.IntN(2) == 0 {
			fields["name"] = fmt.Sprint("user-", i)
		}
		rules = append(rules, fields)
	}
	metadata := map[string]any{"name": "r", "namespace": "shop", "generation": int64(g.IntN(9))}
	if g.IntN(2) == 0 {
		metadata["labels"], metadata["annotations"] = map[string]any{"team": "a"}, map[string]any{"note": "mine"}
	}
	return map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": string(kind), "metadata": metadata,
		"spec":   map[string]any{"hostnames": []any{"a.example.com"}, "rules": rules},
		"status": map[string]any{"parents": []any{}},
	}
}

// backends returns the backendRefs of a rule: both pairs, or some of them, among other backends.
func (g generator) backends(both bool) []any {
	var refs []any
	add := func(name string, weight int64, more map[string]any) {
		ref := map[string]any{"name": name, "port": int64(80), "weight": weight}
		maps.Copy(ref, more)
		refs = append(refs, ref)
	}
	for _, pair := range pairs() {
		if both || g.IntN(2) == 0 {
			add(pair[0], 100, nil)
			add(pair[1], 0, map[string]any{"filters": []any{map[string]any{"type": "X", "n": int64(g.IntN(5))}}})
		} else if g.IntN(3) == 0 {
			add(pair[1], 1, nil)
		}
	}
	if g.IntN(2) == 0 {
		add("foreign", int64(g.IntN(50)), nil)
		add("app-canary", 3, map[string]any{"namespace": "elsewhere"})
	}
	g.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	return refs
}

// matches returns the matches of a rule, sometimes none.
func (g generator) matches(kind Kind, number int) []any {
	var matches []any
	for i := range g.IntN(3) {
		match := map[string]any{"path": map[string]any{"type": pick(g, typePrefix, typeExact),
			"value": fmt.Sprintf("/p%d/%d", number, i)}}
		if kind == GRPCRoute {
			match = map[string]any{"method": map[string]any{"type": typeExact, "service": fmt.Sprintf("s%d.S%d", number, i)}}
		}
		if g.IntN(2) == 0 {
			match["headers"] = []any{map[string]any{"name": "tenant", "type": typeExact, "value": "t"}}
		}
		matches = append(matches, match)
	}
	return matches
}

// intent returns the Intent of a Rollout during a canary. The weights add up to 100.
func (g generator) intent(kind Kind, named bool, pair int) Intent {
	want := usual()
	want.Kind, want.HasRuleNames = kind, named
	want.Stable, want.Canary = pairs()[pair][0], pairs()[pair][1]
	want.Rollout, want.UID = []string{"shop/app", "shop/api"}[pair], fmt.Sprint("u-", pair)
	if g.IntN(4) > 0 {
		weights := Weights{Canary: int32(g.IntN(90))}
		for i := range g.IntN(3) {
			weights.Others = append(weights.Others, Destination{Service: fmt.Sprintf("exp-%d-%d", pair, i),
				Weight: int32(g.IntN(6))})
		}
		weights.Stable = 100 - weights.Canary
		for _, other := range weights.Others {
			weights.Stable -= other.Weight
		}
		want.Weights = &weights
	}
	if g.IntN(4) > 0 {
		managed := []ManagedRoute{}
		for i := range g.IntN(3) {
			managed = append(managed, g.managed(kind, fmt.Sprintf("managed-%d-%d", pair, i)))
		}
		want.ManagedRoutes = &managed
	}
	if g.IntN(5) == 0 {
		want.Label = nil
	}
	return want
}

// managed returns a header or a mirror route.
func (g generator) managed(kind Kind, name string) ManagedRoute {
	header := []HeaderMatch{{Name: "role", Type: pick(g, Exact, Prefix, Regex), Value: pick(g, "qa", "dev.")}}
	if g.IntN(2) == 0 {
		return ManagedRoute{Name: name, Header: header}
	}
	path := pick(g, StringMatch{Type: Prefix, Value: "/"}, StringMatch{Type: Prefix, Value: "/p0"},
		StringMatch{Type: Exact, Value: "/p1/0"})
	if kind == GRPCRoute {
		path = pick(g, StringMatch{Type: Prefix, Value: "/s0.S0"}, StringMatch{Type: Exact, Value: "/s1.S0/Get"})
	}
	return ManagedRoute{Name: name, Mirror: &Mirror{Percent: int32(g.IntN(101)),
		Matches: []MirrorMatch{{Path: &path}, {Headers: header}}}}
}

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
					property(t, newWorld(seed), kind, named)
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
// record and the label, and with the original weights of the pair, the route is the original. The weights of each pair
// and its destinations add up to 100 in every rule.
func TestNothingUnrelatedChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, g generator, kind Kind, named bool) {
		t.Helper()
		original := g.object(kind, named)
		want := g.intent(kind, named, 0)
		changed := must(t, original, want)
		sums(t, changed, want.Weights != nil)
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
		g := newWorld(seed)
		want := g.intent(HTTPRoute, true, 0)
		managed := []ManagedRoute{{Name: "a", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}},
			{Name: "b", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "dev"}}}}
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
