// Package managedroute is the header and mirror routes of a Rollout, and the codec of the annotation http.kedify.io/managed-routes, in which those of one
// HTTPScaledObject travel. The router plugin writes the text, the interceptor reads it, and both use this package, so that what the one writes the other
// takes, and Envoy too.
//
// The text is a JSON list. A request goes by the first route that it matches, and by the weights where it matches none. What a text may hold is bounded before
// it is parsed, because any tenant can write one.
package managedroute

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of a text.
const (
	// MaxBytes is the longest accepted text, in bytes.
	MaxBytes = 16 << 10
	// MaxRoutes is the highest accepted number of routes.
	MaxRoutes = 16
	// MaxMatches is the highest accepted number of matches of all routes.
	MaxMatches = 64
	// MaxHeaders is the highest accepted number of headers of a match.
	MaxHeaders = 16
	// MaxPercent is the percentage with which every request is copied.
	MaxPercent = 100
)

// What can be wrong with routes. Every error of Parse and Validate is one of these by errors.Is; its text adds the route, the part of it and the remedy.
var (
	// ErrTooLong says that the text is longer than MaxBytes. Nothing of it was parsed.
	ErrTooLong = errors.New("text is too long")
	// ErrSyntax says that the text is not a JSON list of routes with exactly the keys of Route.
	ErrSyntax = errors.New("not a JSON list of routes")
	// ErrTooMany says that a limit is exceeded: MaxRoutes, MaxMatches or MaxHeaders.
	ErrTooMany = errors.New("too many")
	// ErrName says that a route has no name or that of another one.
	ErrName = errors.New("route without a name of its own")
	// ErrMatch says that a condition cannot hold for any request, or means nothing.
	ErrMatch = errors.New("not a condition")
	// ErrPercent says that a percentage is above MaxPercent.
	ErrPercent = errors.New("not a percentage")
	// ErrRegex says that a regular expression is none of RE2, or larger than Envoy takes.
	ErrRegex = errors.New("not a regular expression that Envoy takes")
)

// Route is a header route, whose requests go to the canary, or a mirror route, of whose requests copies do.
type Route struct {
	// Name is the route's name, as trafficRouting.managedRoutes of the Rollout has it.
	Name string `json:"name"`
	// MirrorPercent is how many of a hundred requests are copied, 1 to 100. It is 0 for a header route.
	MirrorPercent uint32 `json:"mirrorPercent,omitempty"`
	// Matches are the requests that the route is for: those for which at least one holds.
	Matches []Match `json:"matches"`
}

// IsMirror says whether the route is a mirror route.
func (r Route) IsMirror() bool { return r.MirrorPercent > 0 }

// Match is a condition on a request. Its parts must all hold; one that is the zero value always does.
type Match struct {
	// Method is a condition on the method.
	Method StringMatch `json:"method,omitzero"`
	// Path is a condition on the path, without the query. A prefix is one of whole segments.
	Path StringMatch `json:"path,omitzero"`
	// Headers are conditions on headers.
	Headers []HeaderMatch `json:"headers,omitempty"`
}

// HeaderMatch is a condition on a header, which has to be there.
type HeaderMatch struct {
	StringMatch

	// Name is the header's name, in any case.
	Name string `json:"name"`
}

// StringMatch is a condition on a text.
type StringMatch struct {
	// Type is how the text is compared.
	Type MatchType `json:"type"`
	// Value is what it is compared with, not empty.
	Value string `json:"value"`
}

// MatchType is how a text is compared.
type MatchType string

// The ways of comparing.
const (
	// Exact compares the whole text.
	Exact MatchType = "Exact"
	// Prefix compares the beginning of the text.
	Prefix MatchType = "Prefix"
	// Regex is a regular expression (RE2) for the whole text.
	Regex MatchType = "Regex"
)

// Equal says whether two routes are the same in every part.
func (r Route) Equal(other Route) bool {
	return r.Name == other.Name && r.MirrorPercent == other.MirrorPercent && slices.EqualFunc(r.Matches, other.Matches, Match.equal)
}

func (m Match) equal(other Match) bool {
	return m.Method == other.Method && m.Path == other.Path && slices.Equal(m.Headers, other.Headers)
}

// CountMatches is the number of matches of all routes.
func CountMatches(routes []Route) int {
	count := 0
	for _, route := range routes {
		count += len(route.Matches)
	}
	return count
}

// Validate checks what routes must be whatever their notation.
func Validate(routes []Route) error {
	switch count := CountMatches(routes); {
	case len(routes) > MaxRoutes:
		return fmt.Errorf("%w: %d routes, at most %d are allowed", ErrTooMany, len(routes), MaxRoutes)
	case count > MaxMatches:
		return fmt.Errorf("%w: %d matches in all routes, at most %d are allowed", ErrTooMany, count, MaxMatches)
	}
	for i, route := range routes {
		if route.Name == "" || slices.ContainsFunc(routes[:i], func(other Route) bool { return other.Name == route.Name }) {
			return fmt.Errorf("%w: %.80q: name each route otherwise", ErrName, route.Name)
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
