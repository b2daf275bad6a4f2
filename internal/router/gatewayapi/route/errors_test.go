package route

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// both is a route with one rule that has both Services.
const both = `
metadata: {name: r, namespace: shop}
spec: {rules: [{backendRefs: [{name: app-stable, port: 80, weight: 100}, {name: app-canary, port: 80, weight: 0}]}]}
`

// TestErrors checks that an error wraps one of the package's errors, and its text names the field and the fix.
func TestErrors(t *testing.T) {
	t.Parallel()
	weights := func(stable, canary int32, others ...Destination) func(*Intent) {
		return func(want *Intent) { want.Weights = &Weights{Stable: stable, Canary: canary, Others: others} }
	}
	managed := func(routes ...ManagedRoute) func(*Intent) { return func(want *Intent) { want.ManagedRoutes = &routes } }
	header := func(name string, kind MatchType, value string) func(*Intent) {
		return managed(ManagedRoute{Name: "qa", Header: []HeaderMatch{{Name: name, Type: kind, Value: value}}})
	}
	mirror := func(percent int32, matches ...MirrorMatch) func(*Intent) {
		return managed(ManagedRoute{Name: "copy", Mirror: &Mirror{Percent: percent, Matches: matches}})
	}
	for name, test := range map[string]struct {
		route string
		set   func(*Intent)
		kind  error
		text  string
	}{
		"rules are no list": {
			`{spec: {rules: {}}}`, weights(90, 10), ErrMalformed,
			"spec.rules is map[string]interface {}, not a list",
		},
		"a rule is no object": {
			`{spec: {rules: [3]}}`, weights(90, 10), ErrMalformed,
			"spec.rules[0] is int64, not an object",
		},
		"a backend is no object": {
			`{spec: {rules: [{backendRefs: [x]}]}}`, weights(90, 10), ErrMalformed,
			"spec.rules[0].backendRefs[0] is string, not an object",
		},
		"labels are no object": {
			`{metadata: {labels: []}}`, weights(90, 10), ErrMalformed,
			"metadata.labels is []interface {}, not an object",
		},
		"no spec": {
			`{metadata: {namespace: shop}}`, weights(90, 10), ErrNoRule,
			`neither is a backend of any rule: add both to the backendRefs of one rule`,
		},
		"no canary": {
			`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-stable}]}]}}`,
			weights(90, 10), ErrNoRule, `"app-canary" is not a backend of any rule`,
		},
		"no stable": {
			`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-canary}]}]}}`,
			weights(90, 10), ErrNoRule, `"app-stable" is not a backend of any rule`,
		},
		"in different rules": {`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-canary}]}, ` +
			`{backendRefs: [{name: app-stable}]}]}}`, weights(90, 10), ErrNoRule, "each is a backend, but not of the same rule"},
		"a Service twice": {`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-canary, port: 1}, ` +
			`{name: app-stable}, {name: app-canary, port: ` +
			`2}]}]}}`, weights(90, 10), ErrAmbiguous, `spec.rules[0].backendRefs[0] and [2] are both Service "app-canary": ` +
			`keep one of them`},
		"no Services": {
			both, func(want *Intent) { want.Stable = "" }, ErrInvalid,
			`the stable Service is "" and the canary Service "app-canary"`,
		},
		"a weight below 0": {
			both, weights(110, -10), ErrInvalid,
			`the weight -10 of Service "app-canary": must be from 0 to 1000000`,
		},
		"two weights": {
			both, weights(80, 10, Destination{Service: "app-canary", Weight: 10}), ErrInvalid,
			`Service "app-canary" has two weights`,
		},
		"a header without name": {
			both, header("", Exact, "qa"), ErrInvalid,
			`managed route "qa": invalid request: the header name ""`,
		},
		"a header with a space": {
			both, header("x y", Exact, "qa"), ErrInvalid,
			`the header name "x y": write letters, digits`,
		},
		"a header without value": {both, header("role", Prefix, ""), ErrInvalid, `the value of header "role" is empty`},
		"a header twice": {both, managed(ManagedRoute{
			Name:   "qa",
			Header: []HeaderMatch{{"role", Exact, "a"}, {"Role", Exact, "b"}},
		}), ErrInvalid, `header "Role" has two conditions`},
		"a route without name": {
			both, managed(ManagedRoute{Header: []HeaderMatch{{"role", Exact, "a"}}}), ErrInvalid,
			`the managed route "" is a duplicate or has no name`,
		},
		"a route twice": {both, managed(ManagedRoute{Name: "qa", Header: []HeaderMatch{{"role", Exact, "a"}}},
			ManagedRoute{Name: "qa", Header: []HeaderMatch{{
				"role", Exact,
				"b",
			}}}), ErrInvalid, `the managed route "qa" is a duplicate`},
		"no matches":        {both, managed(ManagedRoute{Name: "qa"}), ErrInvalid, "a header route without matches"},
		"no mirror matches": {both, mirror(10), ErrInvalid, "a mirror route without matches"},
		"a percentage of 101": {
			both, mirror(101, MirrorMatch{}), ErrInvalid,
			"the percentage 101: must be from 0 to 100",
		},
		"an unknown method": {
			both, mirror(10, MirrorMatch{Method: &StringMatch{Exact, "get"}}), ErrInvalid,
			`match[0]: invalid request: the method "get": write one of GET, HEAD`,
		},
		"a method by prefix": {
			both, mirror(10, MirrorMatch{Method: &StringMatch{Prefix, "P"}}), ErrUnsupported,
			"write one match for each method",
		},
		"a path without slash": {
			both, mirror(10, MirrorMatch{Path: &StringMatch{Prefix, "api"}}), ErrInvalid,
			`the path "api": must begin with a slash`,
		},
		"an empty path": {
			both, mirror(10, MirrorMatch{Path: &StringMatch{Regex, ""}}), ErrInvalid,
			`the path "": must begin with a slash`,
		},
		"a foreign destination": {`{metadata: {namespace: shop}, spec: {rules: [{backendRefs: [{name: app-canary}, {name: ` +
			`app-stable}, {name: exp}]}]}}`, weights(80, 10, Destination{Service: "exp", Weight: 10}), ErrClash, `spec.rules[0].backendRefs already contains the experiment's Service "exp"`},
		"matches are no list": {`{metadata: {namespace: shop}, spec: {rules: [{matches: 1, backendRefs: [{name: ` +
			`app-canary}, {name: app-stable}]}]}}`, header("role", Exact, "qa"), ErrMalformed, "matches is int64, not a list"},
		"an unsupported kind": {
			both, func(want *Intent) { header("role", Exact, "qa")(want); want.Kind = UDPRoute },
			ErrUnsupported, "a UDPRoute does not support header and mirror routes",
		},
		"the largest list, rules": {
			rules(9, 1, 1, 0), header("role", Exact, "qa"), ErrLimit,
			"spec.rules would have 18 rules, 9 of them for managed routes",
		},
		"too many matches": {
			rules(2, 33, 1, 0), header("role", Exact, "qa"), ErrLimit,
			"all spec.rules would have 132 matches",
		},
		"too many of one rule": {rules(1, 33, 1, 0), mirror(100, MirrorMatch{Method: &StringMatch{Exact, "GET"}},
			MirrorMatch{Method: &StringMatch{Exact, "PUT"}}), ErrLimit, `managed route "copy" for spec.rules[0] would have 66 ` +
			`matches, the maximum is 64`},
		"too many headers": {
			rules(1, 1, 16, 0), header("role", Exact, "qa"), ErrLimit,
			"a match would have 17 headers, the maximum is 16",
		},
		"too many filters": {
			rules(1, 1, 1, 16), mirror(100, MirrorMatch{}), ErrLimit,
			"would have 17 filters, the maximum is 16",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := usual()
			test.set(&want)
			_, report, err := Apply(decode(t, []byte(test.route)), want)
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Apply: %v\nwant %v, with: %s", err, test.kind, test.text)
			}
			if report.Changed || report.Active {
				t.Errorf("a report with an error: %+v", report)
			}
		})
	}
}

// rules returns a route with a number of rules that have both Services, and in each a number of matches with headers,
// and of filters.
func rules(number, matches, headers, filters int) string {
	list := func(count int, element func(i int) string) string {
		elements := make([]string, count)
		for i := range elements {
			elements[i] = element(i)
		}
		return "[" + strings.Join(elements, ", ") + "]"
	}
	header := func(i int) string { return fmt.Sprintf("{name: h%d, value: v}", i) }
	match := func(i int) string {
		return fmt.Sprintf("{path: {type: PathPrefix, value: /%d}, headers: %s}", i, list(headers, header))
	}
	filter := func(int) string { return "{type: ExtensionRef}" }
	rule := func(int) string {
		return fmt.Sprintf("{matches: %s, filters: %s, backendRefs: [{name: app-stable, port: 80}, {name: app-canary, "+
			"port: 80}]}", list(matches, match), list(filters, filter))
	}
	return fmt.Sprintf("{metadata: {namespace: shop}, spec: {rules: %s}}", list(number, rule))
}

// TestTooManyDestinations: an experiment with more backends than a rule may have is an error.
func TestTooManyDestinations(t *testing.T) {
	t.Parallel()
	want := usual()
	want.Weights = &Weights{Stable: 85}
	for i := range 15 {
		want.Weights.Others = append(want.Weights.Others, Destination{Service: fmt.Sprint("exp-", i), Weight: 1})
	}
	_, _, err := Apply(decode(t, []byte(both)), want)
	if text := "spec.rules[0].backendRefs would have 17 backends with those of the experiment, the maximum " +
		"is 16"; !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), text) {
		t.Errorf("Apply: %v\nwant: %s", err, text)
	}
}

// TestOwnedError: errors.As returns the owner.
func TestOwnedError(t *testing.T) {
	t.Parallel()
	first, second := usual(), usual()
	first.Weights, second.Weights = &Weights{Stable: 50, Canary: 50}, &Weights{Stable: 100}
	second.Rollout = "shop/twin"
	_, _, err := Apply(must(t, decode(t, []byte(both)), first), second)
	var owned *OwnedError
	if !errors.As(err, &owned) || owned.Rollout != "shop/app" || owned.UID != "u-1" {
		t.Errorf("Apply: %v", err)
	}
}
