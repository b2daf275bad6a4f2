package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
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
)

// matchesOf returns the Matches of an object in a fleet, sorted and without duplicates, and the issues. Of hosts and of
// path prefixes the valid ones are served. If one is invalid, the published ones stay active in addition: it may be a
// changed one of them. An error never widens a Match: with invalid headers the published Matches stay as they are, and
// invalid hosts and prefixes never mean every host and every path.
func matchesOf(
	spec httpv1alpha1.HTTPScaledObjectSpec, fleet model.Fleet, isShared bool, published []model.Route,
) ([]model.Match, []issue) {
	previous := publishedMatches(published, fleet)
	hosts, hostIssues := hostsOf(spec.Hosts, isShared)
	prefixes, prefixIssues := prefixesOf(spec.PathPrefixes)
	headers, headerIssues := headersOf(spec.Headers)
	issues := slices.Concat(hostIssues, prefixIssues, headerIssues)
	if len(headerIssues) > 0 {
		return previous, issues
	}
	if len(hosts)*len(prefixes) > MaxRoutes {
		return previous, append(issues, issue{
			httpv1alpha1.ReasonInvalidHosts,
			fmt.Sprintf("spec.hosts and spec.pathPrefixes: %d hosts with %d path prefixes each exceed the limit of %d "+
				"routes: split the object",
				len(hosts), len(prefixes), MaxRoutes),
		})
	}
	valid := combine(hosts, prefixes, headers)
	if len(issues) == 0 || len(previous) == 0 {
		return valid, issues
	}
	if len(hostIssues) > 0 {
		hosts = withPrevious(hosts, previous, func(match model.Match) model.Host { return match.Host })
	}
	if len(prefixIssues) > 0 {
		prefixes = withPrevious(prefixes, previous, func(match model.Match) string { return match.PathPrefix })
	}
	switch {
	case len(hosts) <= MaxHosts && len(hosts)*len(prefixes) <= MaxRoutes:
		return combine(hosts, prefixes, headers), issues
	case len(valid) > 0:
		return valid, issues
	default:
		return previous, issues
	}
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

// hostsOf parses spec.hosts. An empty list means every host, as in the KEDA HTTP add-on, except in the shared fleet:
// there it would be every host of every namespace, which an object has to request explicitly.
func hostsOf(texts []string, isShared bool) ([]model.Host, []issue) {
	const reason = httpv1alpha1.ReasonInvalidHosts
	if len(texts) == 0 && isShared {
		return nil, []issue{{reason, `spec.hosts: no host, which in the shared fleet would claim the hosts of all ` +
			`namespaces: add at least one, such as shop.example.com, or "*" for all`}}
	}
	if len(texts) == 0 {
		return []model.Host{model.AnyHost}, nil
	}
	if len(texts) > MaxHosts {
		return nil, []issue{tooMany(reason, "spec.hosts", len(texts), MaxHosts)}
	}
	return parseAll(texts, reason, "spec.hosts", model.ParseHost)
}

// prefixesOf parses spec.pathPrefixes; an empty list means every path.
func prefixesOf(texts []string) ([]string, []issue) {
	const reason = httpv1alpha1.ReasonInvalidPathPrefixes
	if len(texts) == 0 {
		texts = []string{"/"}
	}
	if len(texts) > MaxPathPrefixes {
		return nil, []issue{tooMany(reason, "spec.pathPrefixes", len(texts), MaxPathPrefixes)}
	}
	return parseAll(texts, reason, "spec.pathPrefixes", model.ParsePathPrefix)
}

// headersOf parses spec.headers, sorted by name.
func headersOf(conditions []httpv1alpha1.Header) ([]model.Header, []issue) {
	const reason = httpv1alpha1.ReasonInvalidHeaders
	if len(conditions) > MaxHeaders {
		return nil, []issue{tooMany(reason, "spec.headers", len(conditions), MaxHeaders)}
	}
	var (
		headers []model.Header
		issues  []issue
	)
	for i, condition := range conditions {
		header, err := model.ParseHeader(condition.Name, condition.Value)
		if err != nil {
			issues = append(issues, issue{reason, fmt.Sprintf("spec.headers[%d] %.80q: %v", i, condition.Name, err)})
			continue
		}
		headers = append(headers, header)
	}
	slices.SortFunc(headers, model.Header.Compare)
	for i := 1; i < len(headers); i++ {
		if headers[i].Name == headers[i-1].Name {
			issues = append(issues, issue{
				reason, fmt.Sprintf("spec.headers: %q is a duplicate, because names are case-insensitive: keep one, all headers "+
					"must match", headers[i].Name),
			})
		}
	}
	return headers, issues
}

// parseAll parses every element of a field. It returns the valid values, sorted and without duplicates.
func parseAll[T cmp.Ordered](texts []string, reason, field string, parse func(string) (T, error)) ([]T, []issue) {
	var (
		parsed []T
		issues []issue
	)
	for i, text := range texts {
		value, err := parse(text)
		if err != nil {
			issues = append(issues, issue{reason, fmt.Sprintf("%s[%d] %.80q: %v", field, i, text, err)})
			continue
		}
		parsed = append(parsed, value)
	}
	return distinct(parsed), issues
}

// tooMany returns the issue of a list that is too long, of which no element is parsed.
func tooMany(reason, field string, count, limit int) issue {
	return issue{reason, fmt.Sprintf("%s: %d entries exceed the limit of %d: split the object", field, count, limit)}
}

// resolveConflicts drops candidates of hosts that other namespaces own. It sorts the rest and keeps the first of those
// with the same fleet and Match, which is the oldest. Each pair of a loser and a winner is one Problem of the loser.
func resolveConflicts(claims map[fleetHost][]claim) ([]model.Route, []model.Problem) {
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
	problems := foreignHostProblems(rejected)
	for key, matches := range lost {
		problems = append(problems, conflict(key.loser, key.winner, matches))
	}
	return routes, problems
}

// conflict returns the Problem of an object whose Matches another object claims with precedence.
func conflict(loser, winner model.Key, matches []model.Match) model.Problem {
	return model.Problem{
		On:     loser,
		Reason: httpv1alpha1.ReasonRouteConflict,
		Message: fmt.Sprintf("%s: HTTPScaledObject %s claims the same and takes precedence (the oldest, then the first by "+
			"name): "+
			"change spec.hosts, spec.pathPrefixes or spec.headers of one of them", describe(matches), winner),
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
