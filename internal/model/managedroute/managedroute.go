// Package managedroute contains the header and mirror routes of a Rollout and the codec of the annotation
// http.kedify.io/managed-routes, which contains those of one HTTPScaledObject. The router plugin writes the annotation
// and the interceptor reads it, both by this package, so that the interceptor and Envoy accept what the plugin writes.
//
// The text is a JSON list. A request uses the first route that it matches; if it matches none, it is routed by weight.
// The size of a text is limited before it is parsed, because any tenant can write one.
package managedroute

import (
	"errors"
	"fmt"
	"slices"
)

// The limits of a text.
const (
	// MaxBytes is the maximum length of a text in bytes.
	MaxBytes = 16 << 10
	// MaxRoutes is the maximum number of routes.
	MaxRoutes = 16
	// MaxMatches is the maximum number of matches of all routes.
	MaxMatches = 64
	// MaxHeaders is the maximum number of headers of a match.
	MaxHeaders = 16
	// MaxPercent is the percentage that mirrors every request.
	MaxPercent = 100
)

// The errors of Parse and Validate. Each returned error wraps one of these; its text adds the route, the field and the
// fix.
var (
	// ErrTooLong means that the text is longer than MaxBytes. It was not parsed.
	ErrTooLong = errors.New("text is too long")
	// ErrSyntax means that the text is not a JSON list of routes with exactly the keys of Route.
	ErrSyntax = errors.New("not a JSON list of routes")
	// ErrTooMany means that a limit is exceeded: MaxRoutes, MaxMatches or MaxHeaders.
	ErrTooMany = errors.New("too many")
	// ErrName means that a route has no name or the name of another one.
	ErrName = errors.New("missing or duplicate route name")
	// ErrMatch means that a condition is invalid or can match no request.
	ErrMatch = errors.New("invalid condition")
	// ErrPercent means that a percentage is above MaxPercent.
	ErrPercent = errors.New("invalid percentage")
	// ErrRegex means that a regular expression is not valid in RE2, or larger than Envoy accepts.
	ErrRegex = errors.New("not a regular expression that Envoy accepts")
)

// Route is a header route, which routes its requests to the canary, or a mirror route, which mirrors them to the
// canary.
type Route struct {
	// Name is the route's name in trafficRouting.managedRoutes of the Rollout.
	Name string `json:"name"`
	// MirrorPercent is the percentage of requests that is mirrored, 1 to 100. It is 0 for a header route.
	MirrorPercent uint32 `json:"mirrorPercent,omitempty"`
	// Matches select the requests: those that at least one of them matches.
	Matches []Match `json:"matches"`
}

// IsMirror reports whether the route is a mirror route.
func (r Route) IsMirror() bool { return r.MirrorPercent > 0 }

// Match is a condition on a request. All of its parts must match; a zero value always matches.
type Match struct {
	// Method is a condition on the method.
	Method StringMatch `json:"method,omitzero"`
	// Path is a condition on the path, without the query. A prefix matches whole segments.
	Path StringMatch `json:"path,omitzero"`
	// Headers are conditions on headers.
	Headers []HeaderMatch `json:"headers,omitempty"`
}

// HeaderMatch is a condition on a header, which must exist.
type HeaderMatch struct {
	StringMatch

	// Name is the header's name, case-insensitive.
	Name string `json:"name"`
}

// StringMatch is a condition on a text.
type StringMatch struct {
	// Type is how the text is compared.
	Type MatchType `json:"type"`
	// Value is the text to compare with, not empty.
	Value string `json:"value"`
}

// MatchType is how a text is compared.
type MatchType string

// The MatchTypes.
const (
	// Exact matches the whole text.
	Exact MatchType = "Exact"
	// Prefix matches the beginning of the text.
	Prefix MatchType = "Prefix"
	// Regex is a regular expression (RE2) for the whole text.
	Regex MatchType = "Regex"
)

// Equal reports whether all fields are equal.
func (r Route) Equal(other Route) bool {
	return r.Name == other.Name && r.MirrorPercent == other.MirrorPercent &&
		slices.EqualFunc(r.Matches, other.Matches, Match.equal)
}

func (m Match) equal(other Match) bool {
	return m.Method == other.Method && m.Path == other.Path && slices.Equal(m.Headers, other.Headers)
}

// CountMatches returns the number of matches of all routes.
func CountMatches(routes []Route) int {
	count := 0
	for _, route := range routes {
		count += len(route.Matches)
	}
	return count
}

// Validate checks routes.
func Validate(routes []Route) error {
	switch count := CountMatches(routes); {
	case len(routes) > MaxRoutes:
		return fmt.Errorf("%w: %d routes, at most %d are allowed", ErrTooMany, len(routes), MaxRoutes)
	case count > MaxMatches:
		return fmt.Errorf("%w: %d matches in all routes, at most %d are allowed", ErrTooMany, count, MaxMatches)
	}
	for i, route := range routes {
		if route.Name == "" || slices.ContainsFunc(routes[:i], func(other Route) bool { return other.Name == route.Name }) {
			return fmt.Errorf("%w: %.80q: give each route a unique name", ErrName, route.Name)
		}
		if err := route.validate(); err != nil {
			return fmt.Errorf("route %.80q: %w", route.Name, err)
		}
	}
	return nil
}

// validate checks one route.
func (r Route) validate() error {
	if r.MirrorPercent > MaxPercent {
		return fmt.Errorf("%w: %d: write 1 to %d", ErrPercent, r.MirrorPercent, MaxPercent)
	}
	if len(r.Matches) == 0 {
		return fmt.Errorf("%w: there is no match: write one, or leave the route out", ErrMatch)
	}
	for i, match := range r.Matches {
		if err := match.validate(); err != nil {
			return fmt.Errorf("match %d: %w", i+1, err)
		}
	}
	return nil
}
