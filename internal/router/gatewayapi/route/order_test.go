package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// request contains everything that matches can examine.
type request struct {
	path, method  string
	role, tenant  string // headers, empty where there is none
	hasQueryParam bool
}

// requests returns all requests that the routes of TestRuleOrderDoesNotChangeTheWinner can distinguish.
func requests() []request {
	var all []request
	for _, path := range []string{"/", "/p0", "/p0/x", "/p1/0"} {
		for _, method := range []string{"GET", "POST"} {
			for _, role := range []string{"", "qa", "dev"} {
				for _, tenant := range []string{"", "t"} {
					for _, hasQueryParam := range []bool{false, true} {
						all = append(all, request{path, method, role, tenant, hasQueryParam})
					}
				}
			}
		}
	}
	return all
}

// crowded returns an HTTPRoute with many rules that match the same requests, at least one of them with both Services.
func (g generator) crowded() map[string]any {
	object := g.object(HTTPRoute, true)
	var rules []any
	for i := range 1 + g.IntN(4) {
		fields := map[string]any{
			"name":        fmt.Sprint("user-", i),
			"backendRefs": []any{map[string]any{"name": fmt.Sprint("other-", i), "port": int64(80)}},
		}
		if i == 0 || g.IntN(2) == 0 {
			fields["backendRefs"] = g.backends(true)
		}
		var matches []any
		for range g.IntN(3) {
			matches = append(matches, g.crowdedMatch())
		}
		if len(matches) > 0 {
			fields["matches"] = matches
		}
		rules = append(rules, fields)
	}
	g.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
	object["spec"].(map[string]any)["rules"] = rules
	return object
}

// crowdedMatch returns a match with few conditions.
func (g generator) crowdedMatch() map[string]any {
	match := map[string]any{}
	if g.IntN(3) > 0 {
		match["path"] = pick(g, map[string]any{"type": typePrefix, "value": "/"},
			map[string]any{"type": typePrefix, "value": "/p0"}, map[string]any{"type": typeExact, "value": "/p1/0"})
	}
	if g.IntN(4) == 0 {
		match["method"] = "GET"
	}
	var headers []any
	if g.IntN(3) == 0 {
		headers = append(headers, map[string]any{"name": "tenant", "type": typeExact, "value": "t"})
	}
	if g.IntN(4) == 0 {
		headers = append(headers, map[string]any{"name": "role", "type": typeExact, "value": "qa"})
	}
	if len(headers) > 0 {
		match["headers"] = headers
	}
	if g.IntN(4) == 0 {
		match["queryParams"] = []any{map[string]any{"name": "v", "value": "1"}}
	}
	return match
}

// crowdedManaged returns managed routes that can match the same requests.
func (g generator) crowdedManaged() []ManagedRoute {
	role := func() []HeaderMatch { return []HeaderMatch{{Name: "role", Type: Exact, Value: pick(g, "qa", "dev")}} }
	var managed []ManagedRoute
	for i := range 1 + g.IntN(3) {
		route := ManagedRoute{Name: fmt.Sprint("managed-", i), Header: role()}
		if g.IntN(3) == 0 {
			path := StringMatch{Type: Prefix, Value: "/p0"}
			route.Header, route.Mirror = nil, &Mirror{
				Percent: 50,
				Matches: []MirrorMatch{{Path: &path}, {Headers: role(), Method: &StringMatch{Type: Exact, Value: "GET"}}},
			}
		} else if g.IntN(3) == 0 {
			route.Header = append(route.Header, HeaderMatch{Name: "tenant", Type: Exact, Value: "t"})
		}
		managed = append(managed, route)
	}
	return managed
}

// TestRuleOrderDoesNotChangeTheWinner: a managed rule matches the same requests, wherever it is inserted, as if all
// managed rules were before the user's rules, in the order of managedRoutes.
func TestRuleOrderDoesNotChangeTheWinner(t *testing.T) {
	t.Parallel()
	inFront, behind := 0, 0
	for seed := range uint64(20 * seeds) {
		g := newGenerator(seed)
		want := g.intent(HTTPRoute, true, 0)
		managed := g.crowdedManaged()
		want.ManagedRoutes = &managed
		original := g.crowded()
		rules := must(t, original, want)["spec"].(map[string]any)["rules"].([]any)
		first := slices.IndexFunc(rules, isUsers)
		reference := slices.DeleteFunc(slices.Clone(rules), isUsers)
		slices.SortStableFunc(reference, func(a, b any) int { return cmp.Compare(managedRouteOf(a), managedRouteOf(b)) })
		inFront, behind = inFront+first, behind+len(reference)-first
		reference = append(reference, slices.DeleteFunc(slices.Clone(rules), func(r any) bool { return !isUsers(r) })...)
		for _, one := range requests() {
			if got, wanted := winner(rules, one), winner(reference, one); got != wanted {
				t.Fatalf("seed %d: %+v goes to rule %q, not to %q:\n%s", seed, one, got, wanted,
					gocmp.Diff(original["spec"], rules))
			}
		}
	}
	if inFront < seeds || behind < seeds {
		t.Errorf("only %d rules in front and %d behind", inFront, behind)
	}
}

// isUsers reports whether a rule is a user's.
func isUsers(r any) bool { return strings.HasPrefix(r.(map[string]any)["name"].(string), "user-") }

// managedRouteOf returns the managed route of a managed rule: managed-1 for the rules managed-1 and managed-1-2.
func managedRouteOf(r any) string { return r.(map[string]any)["name"].(string)[:len("managed-1")] }

// winner returns the name of the rule that handles a request: of those with a matching match, the first with the
// highest rank (Gateway API, HTTPRouteRule, matches).
func winner(rules []any, one request) string {
	best, name := []int(nil), ""
	for _, r := range rules {
		fields := r.(map[string]any)
		matches, _ := fields["matches"].([]any)
		if len(matches) == 0 {
			matches = []any{map[string]any{}}
		}
		for _, match := range matches {
			if rank := rankOf(match.(map[string]any), one); rank != nil && slices.Compare(rank, best) > 0 {
				best, name = rank, fields["name"].(string)
			}
		}
	}
	return name
}

// rankOf returns the rank of a match for a request, nil if it does not match: whether the path is exact, its length,
// whether there is a method, and the numbers of headers and query parameters.
func rankOf(match map[string]any, one request) []int {
	rank := []int{0, 1, 0, 0, 0}
	if path, is := match["path"].(map[string]any); is {
		value := path["value"].(string)
		exact := path["type"] == typeExact
		if exact && one.path != value || !exact && !hasPathPrefix(one.path, value) {
			return nil
		}
		rank[0], rank[1] = boolToInt(exact), len(value)
	}
	if method, is := match["method"].(string); is {
		if method != one.method {
			return nil
		}
		rank[2] = 1
	}
	headers, _ := match["headers"].([]any)
	for _, header := range headers {
		has := map[any]string{"role": one.role, "tenant": one.tenant}[header.(map[string]any)["name"]]
		if has != header.(map[string]any)["value"] {
			return nil
		}
		rank[3]++
	}
	if queryParams, _ := match["queryParams"].([]any); len(queryParams) > 0 {
		if !one.hasQueryParam {
			return nil
		}
		rank[4]++
	}
	return rank
}

// boolToInt returns 1 for true.
func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
