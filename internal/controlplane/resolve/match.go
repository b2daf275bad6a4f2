package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Limits of one HTTPScaledObject, whose every host with every path prefix is a route in every proxy.
const (
	// MaxHosts is the highest accepted number of spec.hosts.
	MaxHosts = 256
	// MaxPathPrefixes is the highest accepted number of spec.pathPrefixes.
	MaxPathPrefixes = 256
	// MaxRoutes is the highest accepted number of hosts times path prefixes.
	MaxRoutes = 1024
	// MaxHeaders is the highest accepted number of spec.headers.
	MaxHeaders = 16
)

// matchesOf returns what spec asks for, sorted and without duplicates, and what is wrong with it. With mistakes the Matches are those that are right.
// A Match is never made wider by a mistake: of wrong headers none comes, of wrong prefixes not every path.
func matchesOf(spec httpv1alpha1.HTTPScaledObjectSpec) ([]model.Match, []mistake) {
	hosts, mistakes := hostsOf(spec.Hosts)
	prefixes, wrongPrefixes := prefixesOf(spec.PathPrefixes)
	headers, wrongHeaders := headersOf(spec.Headers)
	mistakes = slices.Concat(mistakes, wrongPrefixes, wrongHeaders)
	if len(wrongHeaders) > 0 {
		return nil, mistakes
	}
	if len(hosts)*len(prefixes) > MaxRoutes {
		return nil, append(mistakes, mistake{
			httpv1alpha1.ReasonInvalidHosts,
			fmt.Sprintf("spec.hosts and spec.pathPrefixes: %d hosts with %d path prefixes each are more than %d routes; split the object",
				len(hosts), len(prefixes), MaxRoutes),
		})
	}
	matches := make([]model.Match, 0, len(hosts)*len(prefixes))
	for _, host := range hosts {
		for _, prefix := range prefixes {
			matches = append(matches, model.Match{Host: host, PathPrefix: prefix, Headers: headers})
		}
	}
	slices.SortFunc(matches, model.Match.Compare)
	return matches, mistakes
}

// hostsOf reads spec.hosts.
func hostsOf(texts []string) ([]model.Host, []mistake) {
	const reason = httpv1alpha1.ReasonInvalidHosts
	if len(texts) == 0 {
		return nil, []mistake{{reason, `spec.hosts: there is no host; add at least one, such as shop.example.com, or "*" for all`}}
	}
	if len(texts) > MaxHosts {
		return nil, []mistake{tooMany(reason, "spec.hosts", len(texts), MaxHosts)}
	}
	return parseAll(texts, reason, "spec.hosts", model.ParseHost)
}

// prefixesOf reads spec.pathPrefixes; no prefix means every path.
func prefixesOf(texts []string) ([]string, []mistake) {
	const reason = httpv1alpha1.ReasonInvalidPathPrefixes
	if len(texts) == 0 {
		texts = []string{"/"}
	}
	if len(texts) > MaxPathPrefixes {
		return nil, []mistake{tooMany(reason, "spec.pathPrefixes", len(texts), MaxPathPrefixes)}
	}
	return parseAll(texts, reason, "spec.pathPrefixes", model.ParsePathPrefix)
}

// headersOf reads spec.headers, sorted by name.
func headersOf(conditions []httpv1alpha1.Header) ([]model.Header, []mistake) {
	const reason = httpv1alpha1.ReasonInvalidHeaders
	if len(conditions) > MaxHeaders {
		return nil, []mistake{tooMany(reason, "spec.headers", len(conditions), MaxHeaders)}
	}
	var (
		headers  []model.Header
		mistakes []mistake
	)
	for i, condition := range conditions {
		header, err := model.ParseHeader(condition.Name, condition.Value)
		if err != nil {
			mistakes = append(mistakes, mistake{reason, fmt.Sprintf("spec.headers[%d] %.80q: %v", i, condition.Name, err)})
			continue
		}
		headers = append(headers, header)
	}
	slices.SortFunc(headers, model.Header.Compare)
	for i := 1; i < len(headers); i++ {
		if headers[i].Name == headers[i-1].Name {
			mistakes = append(mistakes, mistake{
				reason, fmt.Sprintf("spec.headers: %q is there twice (letter case doesn't count); all headers must match, so keep one", headers[i].Name),
			})
		}
	}
	return headers, mistakes
}

// parseAll reads every element of a field. What remains is sorted and without duplicates.
func parseAll[T cmp.Ordered](texts []string, reason, field string, parse func(string) (T, error)) ([]T, []mistake) {
	var (
		parsed   []T
		mistakes []mistake
	)
	for i, text := range texts {
		value, err := parse(text)
		if err != nil {
			mistakes = append(mistakes, mistake{reason, fmt.Sprintf("%s[%d] %.80q: %v", field, i, text, err)})
			continue
		}
		parsed = append(parsed, value)
	}
	slices.Sort(parsed)
	return slices.Compact(parsed), mistakes
}

// tooMany is the mistake of a list that is too long. Nothing of it was read.
func tooMany(reason, field string, count, limit int) mistake {
	return mistake{reason, fmt.Sprintf("%s: %d entries, at most %d are allowed; split the object", field, count, limit)}
}

// settle sorts candidates and, of those with the same fleet and Match, keeps the first, which is the oldest. Each pair of loser and winner is one Problem of the
// loser.
func settle(candidates []model.Route) ([]model.Route, []model.Problem) {
	slices.SortFunc(candidates, byMatchThenAge)
	type pair struct{ loser, winner model.Key }
	lost := map[pair][]model.Match{}
	var routes []model.Route
	for _, candidate := range candidates {
		if len(routes) == 0 || bySite(routes[len(routes)-1], candidate) != 0 {
			routes = append(routes, candidate)
			continue
		}
		between := pair{loser: candidate.Owner, winner: routes[len(routes)-1].Owner}
		lost[between] = append(lost[between], candidate.Match)
	}
	slices.SortFunc(routes, model.CompareRoutes)
	var problems []model.Problem
	for between, matches := range lost {
		problems = append(problems, conflict(between.loser, between.winner, matches))
	}
	return routes, problems
}

// conflict is the Problem of an object that wants the same as another one, which comes first.
func conflict(loser, winner model.Key, matches []model.Match) model.Problem {
	return model.Problem{
		On:     loser,
		Reason: httpv1alpha1.ReasonConflict,
		Message: fmt.Sprintf("%s: HTTPScaledObject %s has the same and comes first (the oldest does, then the first by name); "+
			"change spec.hosts, spec.pathPrefixes or spec.headers of one of them", describe(matches), winner),
	}
}

// bySite compares what Routes ask for: it is 0 for those of which one fleet can have one only.
func bySite(a, b model.Route) int {
	return cmp.Or(cmp.Compare(a.Fleet, b.Fleet), a.Match.Compare(b.Match))
}

// byMatchThenAge puts Routes of the same fleet and Match side by side, the oldest first.
func byMatchThenAge(a, b model.Route) int {
	return cmp.Or(bySite(a, b), a.Created.Compare(b.Created), a.Owner.Compare(b.Owner))
}

// describe names at most three Matches.
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
