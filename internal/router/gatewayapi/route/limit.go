package route

import "fmt"

// The limits of the Gateway API (the CRDs of v1.6.1, validation of HTTPRoute and GRPCRoute). Older CRDs have some lower
// limits, which the API server enforces.
const (
	// MaxRules is the maximum number of rules.
	MaxRules = 16
	// MaxBackends is the maximum number of backendRefs of a rule.
	MaxBackends = 16
	// MaxFilters is the maximum number of filters of a rule.
	MaxFilters = 16
	// MaxMatches is the maximum number of matches of a rule.
	MaxMatches = 64
	// MaxAllMatches is the maximum number of matches of a route.
	MaxAllMatches = 128
	// MaxHeaders is the maximum number of headers of a match.
	MaxHeaders = 16
)

// checkLimits returns an error if the route exceeds a limit; added is the number of managed rules that were added.
func (d *draft) checkLimits(added int) error {
	if len(d.rules) > MaxRules {
		return fmt.Errorf("%w: spec.rules would have %d rules, %d of them for managed routes (one for each managed route "+
			"and each rule that has both Services), the maximum is %d: remove rules, split the route, or limit the Rollout to "+
			"one rule by its name", ErrLimit, len(d.rules), added, MaxRules)
	}
	total := 0
	for _, r := range d.rules {
		matches, err := objectListField(r.fields, "matches", r.path+".matches")
		if err != nil {
			return err
		}
		total += len(matches)
	}
	if total > MaxAllMatches {
		return fmt.Errorf("%w: all spec.rules would have %d matches together with those of managed routes, the maximum is "+
			"%d: remove matches, split the route, or limit the Rollout to one rule by its name", ErrLimit, total, MaxAllMatches)
	}
	return nil
}

// checkLimit returns an error if a list of a managed rule is too long.
func checkLimit(path, list string, number, limit int) error {
	if number <= limit {
		return nil
	}
	return fmt.Errorf("%w: %s would have %d %s, the maximum is %d: give the managed route fewer conditions, or the rule "+
		"fewer %s", ErrLimit, path, number, list, limit, list)
}
