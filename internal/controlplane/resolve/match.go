package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Limits of one HTTPScaledObject. Each combination of a host and a path prefix is a route in every proxy.
const (
	// MaxHosts is the maximum number of spec.hosts.
	MaxHosts = 256
	// MaxPathPrefixes is the maximum number of spec.pathPrefixes.
	MaxPathPrefixes = 256
	// MaxRoutes is the maximum number of hosts times path prefixes.
	MaxRoutes = 1024
	// MaxHeaders is the maximum number of spec.headers.
	MaxHeaders = 16
	// MaxPatterns is the maximum number of patterns for header values in all routes of a rule: the number of its routes
	// times that of its patterns. Envoy stores each, and for a request it may evaluate all of the request's host.
	MaxPatterns = 256
)

// matchesOf returns the Matches of an object in a fleet, sorted and without duplicates, and the issues. If a rule is
// invalid, the published Matches of the object stay active in addition to the valid ones: see rule.matches for an object
// with one rule.
func matchesOf(
	spec httpv1alpha1.HTTPScaledObjectSpec, fleet model.Fleet, isShared bool, published []model.Route,
) ([]model.Match, []issue) {
	rules, previous := rulesOf(spec), publishedMatches(published, fleet)
	switch len(rules) {
	case 0:
		return nil, []issue{{httpv1beta1.ReasonNoRules, "spec.rules: no rule, so no request is routed to the object: add " +
			`a rule with hosts, or the rule {} for all requests of its proxies`}}
	case 1:
		return rules[0].matches(isShared, previous)
	}
	var valid []model.Match
	var issues []issue
	for _, rule := range rules {
		matches, ruleIssues := rule.matches(isShared, nil)
		valid, issues = append(valid, matches...), append(issues, ruleIssues...)
	}
	if valid = distinctMatches(valid); len(valid) > MaxRoutes {
		return previous, append(issues, issue{httpv1alpha1.ReasonInvalidHosts, fmt.Sprintf(
			"spec.rules: %d combinations of a host, a path and headers exceed the limit of %d routes: split the object",
			len(valid), MaxRoutes)})
	}
	if len(issues) == 0 {
		return valid, nil
	}
	if all := distinctMatches(slices.Concat(valid, previous)); len(all) <= MaxRoutes {
		return all, issues
	}
	if len(valid) > 0 {
		return valid, issues
	}
	return previous, issues
}

// publishedMatches returns the Matches of an object's published Routes. After an object has moved from its own fleet to
// the shared one, the Matches of AnyHost are omitted: they would be the hosts of all namespaces.
func publishedMatches(published []model.Route, fleet model.Fleet) []model.Match {
	var matches []model.Match
	for _, route := range published {
		if route.Fleet == fleet || route.Match.Host != model.AnyHost {
			matches = append(matches, route.Match)
		}
	}
	return matches
}

// distinctMatches sorts Matches and removes duplicates.
func distinctMatches(matches []model.Match) []model.Match {
	slices.SortFunc(matches, model.Match.Compare)
	return slices.CompactFunc(matches, func(a, b model.Match) bool { return a.Compare(b) == 0 })
}

// combine returns the sorted Matches of each host with each prefix.
func combine(hosts []model.Host, prefixes []string, headers []model.Header) []model.Match {
	matches := make([]model.Match, 0, len(hosts)*len(prefixes))
	for _, host := range hosts {
		for _, prefix := range prefixes {
			matches = append(matches, model.Match{Host: host, PathPrefix: prefix, Headers: headers})
		}
	}
	slices.SortFunc(matches, model.Match.Compare)
	return matches
}

// withPrevious returns values and those of the previous Matches, sorted and without duplicates.
func withPrevious[T cmp.Ordered](values []T, previous []model.Match, of func(model.Match) T) []T {
	all := slices.Clone(values)
	for _, match := range previous {
		all = append(all, of(match))
	}
	return distinct(all)
}

// distinct sorts values and removes duplicates.
func distinct[T cmp.Ordered](values []T) []T {
	slices.Sort(values)
	return slices.Compact(values)
}

// resolveConflicts drops candidates of hosts that other namespaces own. It sorts the rest and keeps the first of those
// with the same fleet and Match, which is the oldest. Each pair of a loser and a winner is one Problem of the loser.
func resolveConflicts(claims map[fleetHost][]claim, kindOf kindLookup) ([]model.Route, []model.Problem) {
	candidates, rejected := rejectForeign(claims)
	slices.SortFunc(candidates, comparePrecedence)
	type pair struct{ loser, winner model.Key }
	lost := map[pair][]model.Match{}
	var routes []model.Route
	for _, candidate := range candidates {
		if len(routes) == 0 || compareHostMatch(routes[len(routes)-1], candidate) != 0 {
			routes = append(routes, candidate)
			continue
		}
		key := pair{loser: candidate.Owner, winner: routes[len(routes)-1].Owner}
		lost[key] = append(lost[key], candidate.Match)
	}
	slices.SortFunc(routes, model.CompareRoutes)
	problems := foreignHostProblems(rejected, kindOf)
	for key, matches := range lost {
		problems = append(problems, conflict(key.loser, key.winner, matches, kindOf))
	}
	return routes, problems
}

// conflict returns the Problem of an object whose Matches another object claims with precedence.
func conflict(loser, winner model.Key, matches []model.Match, kindOf kindLookup) model.Problem {
	fields := "spec.hosts, spec.pathPrefixes or spec.headers"
	if kindOf(loser) == httpv1beta1.Kind || kindOf(winner) == httpv1beta1.Kind {
		fields = "the hosts, the paths or the headers"
	}
	return model.Problem{
		On:     loser,
		Reason: httpv1alpha1.ReasonRouteConflict,
		Message: fmt.Sprintf("%s: %s %s claims the same and takes precedence (the oldest, then the first by name): "+
			"change %s of one of them", describe(matches), kindOf(winner), winner, fields),
	}
}

// compareHostMatch compares fleets and Matches of Routes. A fleet serves at most one of the Routes for which it
// returns 0.
func compareHostMatch(a, b model.Route) int {
	return cmp.Or(cmp.Compare(a.Fleet, b.Fleet), a.Match.Compare(b.Match))
}

// comparePrecedence orders Routes by fleet and Match, then by precedence: oldest first, then by name.
func comparePrecedence(a, b model.Route) int {
	return cmp.Or(compareHostMatch(a, b), a.Created.Compare(b.Created), a.Owner.Compare(b.Owner))
}

// describe formats at most three Matches for a message.
func describe(matches []model.Match) string {
	const limit = 3
	var texts []string
	for _, match := range matches[:min(limit, len(matches))] {
		text := fmt.Sprintf("host %s with path prefix %.80s", match.Host, match.PathPrefix)
		if len(match.Headers) > 0 {
			text += " and the same headers"
		}
		texts = append(texts, text)
	}
	if more := len(matches) - limit; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}
