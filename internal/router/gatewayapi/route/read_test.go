package route

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAccepted: every parent in spec.parentRefs counts, and no other.
func TestAccepted(t *testing.T) {
	t.Parallel()
	const accepted = `{parentRef: {name: a}, controllerName: x/y, conditions: [{type: Accepted, status: "True", ` +
		`observedGeneration: 3}, {type: ResolvedRefs, status: "True", observedGeneration: 3}]}`
	report := func(parts ...string) string { return strings.NewReplacer(parts...).Replace(accepted) }
	const (
		refOfB   = "{name: b, namespace: gateways, sectionName: http}"
		older    = "observedGeneration: 2"
		current  = "observedGeneration: 3"
		noneOfB  = `Gateway "gateways/b" (sectionName "http") has never reported on the route`
		noParent = "status.parents: no parent in spec.parentRefs has reported on the route"
	)
	ofB := report("{name: a}", refOfB)
	for name, test := range map[string]struct {
		parents    string
		want       string // empty: accepted
		unreported string // the result of Unreported
	}{
		"both parents": {accepted + "," + ofB, "", ""},
		"their defaults written out": {report("{name: a}",
			"{name: a, group: gateway.networking.k8s.io, kind: Gateway, namespace: shop}") + "," + ofB, "", ""},
		"a parent that is named no more": {
			accepted + "," + ofB + "," + report("{name: a}", "{name: old}", "True", "False"),
			"", "",
		},
		"no parent":              {"", noParent, "no Gateway has ever reported on the route"},
		"only one named no more": {report("{name: a}", "{name: old}"), noParent, ""},
		"another section":        {report("{name: a}", "{name: b, namespace: gateways, sectionName: https}"), noParent, ""},
		"one of two":             {accepted, "status.parents: " + noneOfB, noneOfB},
		"one of two, and a former one": {
			accepted + "," + report("{name: a}", "{name: old}", current, older),
			"status.parents: " + noneOfB, noneOfB,
		},
		"one of two, and another section of the other": {accepted + "," + report("{name: a}",
			"{name: b, namespace: gateways, sectionName: https}"), "status.parents: " + noneOfB, noneOfB},
		"one of two, and another section of the other in the past": {accepted + "," + report("{name: a}",
			"{name: b, namespace: gateways, sectionName: https}", current, older), "status.parents: " + noneOfB, ""},
		"one of two, in the past": {
			report(current, older),
			"status.parents[0] (x/y): condition Accepted is about generation 2, the route has 3", "",
		},
		"one of two rejects": {
			accepted + "," + report("{name: a}", refOfB,
				`ResolvedRefs, status: "True"`, `ResolvedRefs, status: "False", reason: BackendNotFound, message: no Service`),
			"status.parents[1] (x/y): condition ResolvedRefs is False (BackendNotFound): no Service", "",
		},
		"an older generation": {report("ResolvedRefs, status: \"True\", observedGeneration: 3",
			"ResolvedRefs, status: \"True\", observedGeneration: 2"), "status.parents[0] (x/y): condition ResolvedRefs is " +
			"about generation 2, the route has 3", ""},
		"no generation": {report(current, "reason: Old"), "status.parents[0] (x/y): condition Accepted has no " +
			"observedGeneration", ""},
		"a condition missing": {
			report("type: Accepted", "type: Programmed"),
			"status.parents[0] (x/y) has no condition Accepted", "",
		},
		"no objects": {"1", "not a Gateway API route: status.parents[0] is int64, not an object", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := decode(t, []byte(`{metadata: {namespace: shop, generation: 3}, spec: {parentRefs: [{name: a}, `+refOfB+
				`]}, status: {parents: [`+test.parents+`]}}`))
			accepted, what := Accepted(object)
			if accepted != (test.want == "") || what != test.want {
				t.Errorf("Accepted: %t, %q\nwant %q", accepted, what, test.want)
			}
			if got := Unreported(object); got != test.unreported {
				t.Errorf("Unreported: %q\nwant %q", got, test.unreported)
			}
		})
	}
}

// TestCheckSpec: the error names the difference from the Intent.
func TestCheckSpec(t *testing.T) {
	t.Parallel()
	want := usual()
	want.Weights = &Weights{Stable: 80, Canary: 20}
	want.ManagedRoutes = &[]ManagedRoute{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}}}
	object := must(t, decode(t, []byte(both)), want)
	if err := CheckSpec(object, want); err != nil {
		t.Errorf("Holds after Apply: %v", err)
	}
	for name, test := range map[string]struct {
		change func(*Intent)
		text   string
	}{
		"another weight": {
			func(want *Intent) { want.Weights = &Weights{Stable: 70, Canary: 30} },
			"spec.rules[0].backendRefs[0].weight is 80 and should be 70",
		},
		"another header": {func(want *Intent) {
			want.ManagedRoutes = &[]ManagedRoute{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "dev"}}}}
		}, "spec.rules[1].matches[0].headers[0].value is qa and should be dev"},
		"no managed route": {
			func(want *Intent) { want.ManagedRoutes = &[]ManagedRoute{} },
			"spec.rules has 2 elements and should have 1",
		},
		"an experiment as well": {func(want *Intent) {
			want.Weights = &Weights{Stable: 80, Canary: 20, Others: []Destination{{Service: "exp"}}}
		}, "spec.rules[0].backendRefs has 2 elements and should have 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := want
			test.change(&want)
			if err := CheckSpec(object, want); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Holds: %v\nwant: %s", err, test.text)
			}
		})
	}
	want.Label = nil
	if err := CheckSpec(object, want); err != nil {
		t.Errorf("labels don't count, but CheckSpec = %v", err)
	}
}

// TestCanaryWeight: the weight on the route counts, no matter which Rollout set it.
func TestCanaryWeight(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		route    string
		ruleName string
		want     int32
	}{
		"the highest of all rules": {`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-stable}, ` +
			`{name: app-canary, weight: 20}]}, {backendRefs: [{name: app-stable}, {name: app-canary, weight: 30}]}]}}`, "", 30},
		"of the rule in scope": {`{metadata: {namespace: shop}, spec: {rules: [{name: a, backendRefs: [{name: ` +
			`app-stable}, {name: app-canary, weight: 20}]}, {backendRefs: [{name: app-stable}, {name: app-canary, weight: ` +
			`30}]}]}}`, "a", 20},
		"an absent one is 1": {`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-stable}, ` +
			`{name: app-canary}]}]}}`, "", 1},
		"a rule of the canary": {`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-canary, ` +
			`weight: 20}]}]}}`, "", 0},
		"no route": {`{spec: {rules: 1}}`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := usual()
			want.RuleName, want.HasRuleNames = test.ruleName, false
			if got := CanaryWeight(decode(t, []byte(test.route)), want); got != test.want {
				t.Errorf("CanaryWeight: %d, want %d", got, test.want)
			}
		})
	}
}

// owner is a Rollout in the record of a route, with its UID at its last call.
type owner struct{ Rollout, UID string }

// ownersOf returns the Rollouts in a route's record, sorted by name; none if the annotation is invalid.
func ownersOf(object map[string]any) []owner {
	d, err := newDraft(object, Intent{})
	if err != nil {
		return nil
	}
	owners := make([]owner, 0, len(d.record))
	for _, rollout := range d.record.owners() {
		owners = append(owners, owner{rollout, d.record[rollout].UID})
	}
	return owners
}

// TestOwners: Rollouts are in the record as long as they are active.
func TestOwners(t *testing.T) {
	t.Parallel()
	want := usual()
	want.Weights = &Weights{Stable: 80, Canary: 20}
	object := must(t, decode(t, []byte(both)), want)
	if diff := cmp.Diff([]owner{{Rollout: "shop/app", UID: "u-1"}}, ownersOf(object)); diff != "" {
		t.Errorf("Owners (-want +got):\n%s", diff)
	}
	if owners := ownersOf(must(t, object, rest(want))); len(owners) > 0 {
		t.Errorf("Owners after the end: %v", owners)
	}
	if owners := ownersOf(decode(t, []byte(`{metadata: {annotations: {rollouts.kedify.io/gatewayapi: `+
		`"[]"}}}`))); len(owners) > 0 {
		t.Errorf("Owners of an annotation that isn't ours: %v", owners)
	}
}

// TestKinds: kinds and resources have the names of the API.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]string{
		HTTPRoute: "httproutes", GRPCRoute: "grpcroutes", TCPRoute: "tcproutes", TLSRoute: "tlsroutes", UDPRoute: "udproutes",
		Kind("Service"): "",
	} {
		if got := kind.Resource(); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		if matches := kind == HTTPRoute || kind == GRPCRoute; kind.HeaderRoutes() != matches ||
			kind.MirrorRoutes() != matches {
			t.Errorf("%s: header routes %t, mirror routes %t", kind, kind.HeaderRoutes(), kind.MirrorRoutes())
		}
	}
}
