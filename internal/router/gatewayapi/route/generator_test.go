package route

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// generator creates random routes and Intents: the same seed creates the same ones.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 7))} }

// pick returns one of the values.
func pick[T any](g generator, among ...T) T { return among[g.IntN(len(among))] }

// pairs returns the pairs of Services that may split traffic on a route: that of shop/app and that of shop/api.
func pairs() [][2]string {
	return [][2]string{{"app-stable", "app-canary"}, {"api-stable", "api-canary"}}
}

// hasStable reports whether the stable Service of shop/app is one of the backends.
func hasStable(refs []any) bool {
	return slices.ContainsFunc(refs, func(ref any) bool { return ref.(map[string]any)["name"] == pairs()[0][0] })
}

// object returns an HTTPRoute or a GRPCRoute with one to three rules, the first of which has both pairs. The pairs have
// the weights 100 and 0 in every rule, as at rest. Rules without the pair of shop/app may have sessions of their
// author.
func (g generator) object(kind Kind, named bool) map[string]any {
	rules := []any{}
	for i := range 1 + g.IntN(3) {
		refs := g.backends(i == 0)
		fields := map[string]any{"backendRefs": refs}
		if !hasStable(refs) && g.IntN(2) == 0 {
			fields[sessionField] = pick(g, append(someSessions(), Sessions{Name: "mine"})...).value()
		}
		if matches := g.matches(kind, i); len(matches) > 0 {
			fields["matches"] = matches
		}
		if g.IntN(2) == 0 {
			fields["filters"] = []any{map[string]any{
				"type":         "ExtensionRef",
				"extensionRef": map[string]any{"name": fmt.Sprint("f", g.IntN(3))},
			}}
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
		match := map[string]any{"path": map[string]any{
			"type":  pick(g, typePrefix, typeExact),
			"value": fmt.Sprintf("/p%d/%d", number, i),
		}}
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

// intent returns the Intent of a Rollout during a canary. The weights add up to 100. Only the Rollout of the first pair
// has sessions: a rule can have those of one Rollout.
func (g generator) intent(kind Kind, named bool, pair int) Intent {
	want := usual()
	want.Kind, want.HasRuleNames = kind, named
	want.Stable, want.Canary = pairs()[pair][0], pairs()[pair][1]
	want.Rollout, want.UID = []string{"shop/app", "shop/api"}[pair], fmt.Sprint("u-", pair)
	if g.IntN(4) > 0 {
		weights := Weights{Canary: int32(g.IntN(90))}
		for i := range g.IntN(3) {
			weights.Others = append(weights.Others, Destination{
				Service: fmt.Sprintf("exp-%d-%d", pair, i),
				Weight:  int32(g.IntN(6)),
			})
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
	if pair == 0 {
		want.Sessions = pick(g, append(someSessions(), Sessions{})...)
		want.KeepsSessions = g.IntN(6) == 0
	}
	return want
}

// someSessions returns sessions of Rollouts and of authors.
func someSessions() []Sessions {
	return []Sessions{
		{Name: "side"}, {Name: "side", Revision: "5c8d"}, {Name: "side", MaxAge: 90}, {Name: "x-session", Header: true},
	}
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
	return ManagedRoute{Name: name, Mirror: &Mirror{
		Percent: int32(g.IntN(101)),
		Matches: []MirrorMatch{{Path: &path}, {Headers: header}},
	}}
}
