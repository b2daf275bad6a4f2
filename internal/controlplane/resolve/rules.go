package resolve

import (
	"cmp"
	"fmt"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// RulesOf returns the rules of a spec. An HTTPScaledObject has one. The result may not be modified.
func RulesOf(spec httpv1alpha1.HTTPScaledObjectSpec) []httpv1alpha1.Rule {
	if spec.Converted != nil {
		return spec.Converted.Rules
	}
	return []httpv1alpha1.Rule{{Hosts: spec.Hosts, PathPrefixes: spec.PathPrefixes, Headers: spec.Headers}}
}

// CountMatches returns the number of Matches that the rules of a spec may have, at least 1.
func CountMatches(spec httpv1alpha1.HTTPScaledObjectSpec) int {
	matches := 0
	for _, rule := range RulesOf(spec) {
		matches += max(len(rule.Hosts), 1) * max(len(rule.PathPrefixes), 1)
	}
	return max(matches, 1)
}

// rule is a rule with the names of its fields, for messages.
type rule struct {
	httpv1alpha1.Rule

	hostsField, prefixesField, headersField string
}

// rulesOf is RulesOf with the names of the fields.
func rulesOf(spec httpv1alpha1.HTTPScaledObjectSpec) []rule {
	var rules []rule
	for i, current := range RulesOf(spec) {
		if spec.Converted == nil {
			rules = append(rules, rule{current, "spec.hosts", "spec.pathPrefixes", "spec.headers"})
			continue
		}
		field := fmt.Sprintf("spec.rules[%d].", i)
		rules = append(rules, rule{current, field + "hosts", field + "paths", field + "headers"})
	}
	return rules
}

// matches returns the Matches of the rule, sorted and without duplicates, and the issues. previous are the published
// Matches of its object, none if the object has several rules. Of hosts and of path prefixes the valid ones are served.
// If one is invalid, the published ones stay active in addition: it may be a changed one of them. An error never widens
// a Match: with invalid headers the published Matches stay as they are, and invalid hosts and prefixes never mean every
// host and every path.
func (r rule) matches(isShared bool, previous []model.Match) ([]model.Match, []issue) {
	hosts, hostIssues := r.parseHosts(isShared)
	prefixes, prefixIssues := r.parsePrefixes()
	headers, headerIssues := r.parseHeaders()
	issues := slices.Concat(hostIssues, prefixIssues, headerIssues)
	if len(headerIssues) > 0 {
		return previous, issues
	}
	if len(hosts)*len(prefixes) > MaxRoutes {
		return previous, append(issues, issue{
			httpv1alpha1.ReasonInvalidHosts,
			fmt.Sprintf("%s and %s: %d hosts with %d path prefixes each exceed the limit of %d routes: split the object",
				r.hostsField, r.prefixesField, len(hosts), len(prefixes), MaxRoutes),
		})
	}
	if count := len(hosts) * len(prefixes) * model.CountPatterns(headers); count > MaxPatterns {
		return previous, append(issues, issue{httpv1alpha1.ReasonInvalidHeaders, fmt.Sprintf(
			"%s: %d patterns in %d routes (a host with a path prefix) exceed the limit of %d patterns: use value, or split "+
				"the object", r.headersField, model.CountPatterns(headers), len(hosts)*len(prefixes), MaxPatterns)})
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

// parseHosts parses the hosts. An empty list means every host, as in the KEDA HTTP add-on, except in the shared fleet:
// there it would be every host of every namespace, which an object has to request explicitly.
func (r rule) parseHosts(isShared bool) ([]model.Host, []issue) {
	const reason = httpv1alpha1.ReasonInvalidHosts
	if len(r.Hosts) == 0 && isShared {
		return nil, []issue{{reason, r.hostsField + `: no host, which in the shared fleet would claim the hosts of all ` +
			`namespaces: add at least one, such as shop.example.com, or "*" for all`}}
	}
	if len(r.Hosts) == 0 {
		return []model.Host{model.AnyHost}, nil
	}
	if len(r.Hosts) > MaxHosts {
		return nil, []issue{tooMany(reason, r.hostsField, len(r.Hosts), MaxHosts)}
	}
	return parseAll(r.Hosts, reason, r.hostsField, model.ParseHost)
}

// parsePrefixes parses the path prefixes; an empty list means every path.
func (r rule) parsePrefixes() ([]string, []issue) {
	const reason = httpv1alpha1.ReasonInvalidPathPrefixes
	texts := r.PathPrefixes
	if len(texts) == 0 {
		texts = []string{"/"}
	}
	if len(texts) > MaxPathPrefixes {
		return nil, []issue{tooMany(reason, r.prefixesField, len(texts), MaxPathPrefixes)}
	}
	return parseAll(texts, reason, r.prefixesField, model.ParsePathPrefix)
}

// parseHeaders parses the headers, sorted by name.
func (r rule) parseHeaders() ([]model.Header, []issue) {
	const reason = httpv1alpha1.ReasonInvalidHeaders
	if len(r.Headers) > MaxHeaders {
		return nil, []issue{tooMany(reason, r.headersField, len(r.Headers), MaxHeaders)}
	}
	var (
		headers []model.Header
		issues  []issue
	)
	for i, condition := range r.Headers {
		header, err := model.HeaderText{
			Name: condition.Name, Value: condition.Value, Wildcard: condition.ValueWildcard, Regex: condition.ValueRegex,
		}.Parse()
		if err != nil {
			issues = append(issues, issue{reason, fmt.Sprintf("%s[%d] %.80q: %v", r.headersField, i, condition.Name, err)})
			continue
		}
		headers = append(headers, header)
	}
	slices.SortFunc(headers, model.Header.Compare)
	for i := 1; i < len(headers); i++ {
		if headers[i].Name == headers[i-1].Name {
			issues = append(issues, issue{
				reason, fmt.Sprintf("%s: %q is a duplicate, because names are case-insensitive: keep one, all headers "+
					"must match", r.headersField, headers[i].Name),
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
