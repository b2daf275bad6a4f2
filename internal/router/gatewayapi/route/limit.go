package route

import "fmt"

// The most that the Gateway API lets a route have (the CRDs of v1.6.1, validation of HTTPRoute and GRPCRoute). Older CRDs allow less of some; what they refuse,
// the API server says.
const (
	// MaxRules is the highest number of rules.
	MaxRules = 16
	// MaxBackends is the highest number of backendRefs of a rule.
	MaxBackends = 16
	// MaxFilters is the highest number of filters of a rule.
	MaxFilters = 16
	// MaxMatches is the highest number of matches of a rule.
	MaxMatches = 64
	// MaxAllMatches is the highest number of matches of a route.
	MaxAllMatches = 128
	// MaxHeaders is the highest number of headers of a match.
	MaxHeaders = 16
)

// checkLimits says whether the route has become too large by the managed rules, of which added is the number.
func (d *draft) checkLimits(added int) error {
	if len(d.rules) > MaxRules {
		return fmt.Errorf("%w: spec.rules would have %d rules, %d of them for managed routes (one for each managed route and each rule that has both Services), "+
			"and %d are allowed: remove rules, split the route, or limit the Rollout to one rule by its name", ErrLimit, len(d.rules), added, MaxRules)
	}
	total := 0
	for _, r := range d.rules {
		matches, err := objectsAt(r.fields, "matches", r.path+".matches")
		if err != nil {
			return err
		}
		total += len(matches)
	}
	if total > MaxAllMatches {
		return fmt.Errorf("%w: all spec.rules would have %d matches together with those of managed routes, and %d are allowed: remove matches, split the route, "+
			"or limit the Rollout to one rule by its name", ErrLimit, total, MaxAllMatches)
	}
	return nil
}

// limited fails when a list of a managed rule has become longer than allowed.
func limited(path, what string, number, limit int) error {
	if number <= limit {
		return nil
	}
	return fmt.Errorf("%w: %s would have %d %s, and %d are allowed: give the managed route fewer conditions, or the rule fewer %s", ErrLimit, path, number, what, limit, what)
}
