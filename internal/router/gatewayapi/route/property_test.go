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

// seeds is how many routes a property is tried on.
const seeds = 80

// world makes routes and Intents by chance: the same seed makes the same ones.
type world struct{ *rand.Rand }

func newWorld(seed uint64) world { return world{rand.New(rand.NewPCG(seed, 7))} }

// pick is one of several.
func pick[T any](w world, among ...T) T { return among[w.IntN(len(among))] }

// pairs are the Services that may share requests on a route: those of shop/app, then those of shop/api.
func pairs() [][2]string {
	return [][2]string{{"app-stable", "app-canary"}, {"api-stable", "api-canary"}}
}

// object makes an HTTPRoute or a GRPCRoute with one to three rules, the first of which has both pairs. In every rule the pairs have the weights 100 and 0, as
// at rest.
func (w world) object(kind Kind, named bool) map[string]any {
	rules := []any{}
	for i := range 1 + w.IntN(3) {
		fields := map[string]any{"backendRefs": w.backends(i == 0)}
		if matches := w.matches(kind, i); len(matches) > 0 {
			fields["matches"] = matches
		}
		if w.IntN(2) == 0 {
			fields["filters"] = []any{map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"name": fmt.Sprint("f", w.IntN(3))}}}
		}
		if w.IntN(3) == 0 {
			fields["timeouts"], fields["unheardOf"] = map[string]any{"request": "3s"}, map[string]any{"x": 1.5, "y": []any{true, nil}}
		}
		if named && w.IntN(2) == 0 {
			fields["name"] = fmt.Sprint("user-", i)
		}
		rules = append(rules, fields)
	}
	metadata := map[string]any{"name": "r", "namespace": "shop", "generation": int64(w.IntN(9))}
	if w.IntN(2) == 0 {
		metadata["labels"], metadata["annotations"] = map[string]any{"team": "a"}, map[string]any{"note": "mine"}
	}
	return map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": string(kind), "metadata": metadata,
		"spec":   map[string]any{"hostnames": []any{"a.example.com"}, "rules": rules},
		"status": map[string]any{"parents": []any{}},
	}
}

// backends makes the backendRefs of a rule: both pairs, or some of them, among foreign ones.
func (w world) backends(both bool) []any {
	var refs []any
	add := func(name string, weight int64, more map[string]any) {
		ref := map[string]any{"name": name, "port": int64(80), "weight": weight}
		maps.Copy(ref, more)
		refs = append(refs, ref)
	}
	for _, pair := range pairs() {
		if both || w.IntN(2) == 0 {
			add(pair[0], 100, nil)
			add(pair[1], 0, map[string]any{"filters": []any{map[string]any{"type": "X", "n": int64(w.IntN(5))}}})
		} else if w.IntN(3) == 0 {
			add(pair[1], 1, nil)
		}
	}
	if w.IntN(2) == 0 {
		add("foreign", int64(w.IntN(50)), nil)
		add("app-canary", 3, map[string]any{"namespace": "elsewhere"})
	}
	w.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	return refs
}

// matches makes the matches of a rule; sometimes there are none.
func (w world) matches(kind Kind, number int) []any {
	var matches []any
	for i := range w.IntN(3) {
		match := map[string]any{"path": map[string]any{"type": pick(w, typePrefix, typeExact), "value": fmt.Sprintf("/p%d/%d", number, i)}}
		if kind == GRPCRoute {
			match = map[string]any{"method": map[string]any{"type": typeExact, "service": fmt.Sprintf("s%d.S%d", number, i)}}
		}
		if w.IntN(2) == 0 {
			match["headers"] = []any{map[string]any{"name": "tenant", "type": typeExact, "value": "t"}}
		}
		matches = append(matches, match)
	}
	return matches
}

// intent makes what a Rollout asks in the middle of a canary. The weights add up to 100.
func (w world) intent(kind Kind, named bool, pair int) Intent {
	want := usual()
	want.Kind, want.NamedRules = kind, named
	want.Stable, want.Canary = pairs()[pair][0], pairs()[pair][1]
	want.Rollout, want.UID = []string{"shop/app", "shop/api"}[pair], fmt.Sprint("u-", pair)
	if w.IntN(4) > 0 {
		weights := Weights{Canary: int32(w.IntN(90))}
		for i := range w.IntN(3) {
			weights.Others = append(weights.Others, Destination{Service: fmt.Sprintf("exp-%d-%d", pair, i), Weight: int32(w.IntN(6))})
		}
		weights.Stable = 100 - weights.Canary
		for _, other := range weights.Others {
			weights.Stable -= other.Weight
		}
		want.Weights = &weights
	}
	if w.IntN(4) > 0 {
		managed := []Managed{}
		for i := range w.IntN(3) {
			managed = append(managed, w.managed(kind, fmt.Sprintf("managed-%d-%d", pair, i)))
		}
		want.Managed = &managed
	}
	if w.IntN(5) == 0 {
		want.Label = nil
	}
	return want
}

// managed makes a header or a mirror route.
func (w world) managed(kind Kind, name string) Managed {
	header := []HeaderMatch{{Name: "role", Type: pick(w, Exact, Prefix, Regex), Value: pick(w, "qa", "dev.")}}
	if w.IntN(2) == 0 {
		return Managed{Name: name, Header: header}
	}
	path := pick(w, StringMatch{Type: Prefix, Value: "/"}, StringMatch{Type: Prefix, Value: "/p0"}, StringMatch{Type: Exact, Value: "/p1/0"})
	if kind == GRPCRoute {
		path = pick(w, StringMatch{Type: Prefix, Value: "/s0.S0"}, StringMatch{Type: Exact, Value: "/s1.S0/Get"})
	}
	return Managed{Name: name, Mirror: &Mirror{Percent: int32(w.IntN(101)), Matches: []MirrorMatch{{Path: &path}, {Headers: header}}}}
}

// rest is what a Rollout asks after the end of a canary.
func rest(want Intent) Intent {
	want.Weights, want.Managed = &Weights{Stable: 100}, &[]Managed{}
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

// each tries a property on routes of both kinds, with and without names of rules.
func each(t *testing.T, property func(t *testing.T, w world, kind Kind, named bool)) {
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

// same compares two routes to the byte.
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

// A route with the weights that it has at rest comes back to the byte after any number of calls of two Rollouts, once both have ended.
func TestUndoGivesTheOriginalBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world, kind Kind, named bool) {
		t.Helper()
		original := w.object(kind, named)
		object := original
		for range 1 + w.IntN(6) {
			object = must(t, object, w.intent(kind, named, w.IntN(2)))
		}
		app, api := rest(w.intent(kind, named, 0)), rest(w.intent(kind, named, 1))
		app.Label, api.Label = usual().Label, usual().Label
		same(t, "after the end of both", original, must(t, object, app, api))
	})
}

// Weights that the user left out, or set to something else, read 100 and 0 at the end: the only trace that a canary leaves.
func TestUndoWithOtherWeights(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world, kind Kind, named bool) {
		t.Helper()
		want := w.object(kind, named)
		original := cloneMap(want)
		eachPair(original, func(_ []any, stable, canary map[string]any) {
			delete(stable, "weight")
			canary["weight"] = int64(w.IntN(50))
		})
		same(t, "after the end", want, must(t, original, w.intent(kind, named, 0), rest(w.intent(kind, named, 0))))
	})
}

// Nothing but what is a Rollout's own changes: without the managed rules, the destinations, the record and the label, and with the weights of the pair back,
// the route is the original. And the weights of each pair and its destinations add up to 100 in every rule.
func TestNothingUnrelatedChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world, kind Kind, named bool) {
		t.Helper()
		original := w.object(kind, named)
		want := w.intent(kind, named, 0)
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

// usersOf are those of the rules that have the matches of a user's rule, in the user's order; every managed rule has more in each.
func usersOf(users, rules []any) []any {
	var found []any
	for _, r := range rules {
		if len(found) < len(users) && cmp.Equal(users[len(found)].(map[string]any)["matches"], r.(map[string]any)["matches"]) {
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

// stripped takes out of a route by plain means what shop/app may have put there: rules that were not there before, by what tells them from the user's, and the
// rest by name.
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

// The same call once more changes nothing, also after a call of another Rollout.
func TestRepeatedCallsChangeNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world, kind Kind, named bool) {
		t.Helper()
		app, api := w.intent(kind, named, 0), w.intent(kind, named, 1)
		object := must(t, w.object(kind, named), app, api)
		for _, want := range []Intent{app, api, app} {
			again, report, err := Apply(object, want)
			if err != nil || report.Changed {
				t.Errorf("%s: changed %t, %v\n%s", want.Rollout, report.Changed, err, cmp.Diff(object, again))
			}
		}
	})
}

// Weights and managed routes may come in any order, or together.
func TestOrderOfWeightsAndManagedRoutes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world, kind Kind, named bool) {
		t.Helper()
		object := w.object(kind, named)
		both := w.intent(kind, named, 0)
		weights, managed := both, both
		weights.Managed, managed.Weights = nil, nil
		together := must(t, object, both)
		same(t, "weights, then managed routes", together, must(t, object, weights, managed))
		same(t, "managed routes, then weights", together, must(t, object, managed, weights))
	})
}

// Two Rollouts on one route may come in any order. (With managed routes of the same name, who comes first has the name without a number.)
func TestTwoRolloutsCommute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world, kind Kind, named bool) {
		t.Helper()
		object := w.object(kind, named)
		app, api := w.intent(kind, named, 0), w.intent(kind, named, 1)
		same(t, "app then api, against api then app", must(t, object, app, api), must(t, object, api, app))
	})
}

// Header routes have the canary as only backend, with weight.
func TestHeaderRoutesLeadToTheCanary(t *testing.T) {
	t.Parallel()
	headers := 0
	for seed := range uint64(seeds) {
		w := newWorld(seed)
		want := w.intent(HTTPRoute, true, 0)
		managed := []Managed{{Name: "a", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}}, {Name: "b", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "dev"}}}}
		want.Managed = &managed
		original := w.object(HTTPRoute, true)
		changed := must(t, original, want)["spec"].(map[string]any)["rules"].([]any)
		for i, r := range changed {
			if name, _ := r.(map[string]any)["name"].(string); name == "" || strings.HasPrefix(name, "user-") {
				continue
			}
			refs := r.(map[string]any)["backendRefs"].([]any)
			if ref := refs[0].(map[string]any); len(refs) != 1 || ref["name"] != "app-canary" || ref["weight"] != int64(1) || ref["filters"] == nil {
				t.Fatalf("seed %d: the backends of managed rule %d are %v", seed, i, refs)
			}
			headers++
		}
	}
	if headers < 2*seeds {
		t.Errorf("only %d managed rules in %d routes", headers, seeds)
	}
}
