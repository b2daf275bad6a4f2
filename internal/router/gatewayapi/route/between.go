package route

import (
	"slices"
)

// rulesByNumber are controllers that name what a rule needs by the number of the rule (status.parents[].controllerName). What the last rule needs comes and goes
// together with that rule, and a proxy may have the one before the other: Envoy Gateway 1.9.1 then answers 503 (NC).
func rulesByNumber() []string { return []string{"gateway.envoyproxy.io/gatewayclass-controller"} }

// unmetHeader is the condition of a rule that is to match no request.
const unmetHeader = "x-rollouts-unmet"

// Between returns what is to be written before applied, which is what Apply made of object: the same route with the managed rules of the Rollout that come, or those
// that go, in their places, but for requests that nobody sends. Once the proxies have taken that, applied costs no request. It is nil where applied can be written
// at once: no rule comes or goes, those that do are for nobody already, or nobody serves the route who counts rules.
func Between(object map[string]any, want Intent, applied map[string]any) map[string]any {
	want.Weights, want.Managed = nil, nil
	before, err := open(object, want)
	if err != nil || !before.isServedByNumber() {
		return nil
	}
	after, err := open(applied, want)
	if err != nil {
		return nil
	}
	between, changed := before, false
	switch n := len(before.rules); {
	case len(after.rules) < n:
		changed = before.unmeet(before.rules, after.rules)
	case len(after.rules) > n:
		between, changed = after, after.unmeet(after.rules[n:], before.rules)
	}
	if !changed {
		return nil
	}
	between.settle()
	return between.close()
}

// isServedByNumber says whether a controller of rulesByNumber has reported on the route.
func (d *draft) isServedByNumber() bool {
	status, _ := d.object["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	return slices.ContainsFunc(parents, func(parent any) bool {
		report, _ := parent.(map[string]any)
		return slices.Contains(rulesByNumber(), textOf(report, "controllerName", ""))
	})
}

// unmeet gives those of the Rollout's managed rules that others has not a condition that no request fulfils, and says whether there were any.
func (d *draft) unmeet(rules, others []*rule) bool {
	changed := false
	for _, r := range rules {
		isThere := slices.ContainsFunc(others, func(other *rule) bool { return equal(other.fields, r.fields) })
		if r.owner == d.want.Rollout && !isThere && d.unmeetOne(r) {
			changed = true
		}
	}
	return changed
}

// unmeetOne does that to one rule.
func (d *draft) unmeetOne(r *rule) bool {
	matches, err := objectsAt(r.fields, "matches", "matches")
	if err != nil || len(matches) == 0 {
		return false
	}
	condition := []HeaderMatch{{Name: unmetHeader, Type: Exact, Value: d.want.Rollout}}
	for _, match := range matches {
		headers, err := objectsAt(match, "headers", "headers")
		if err != nil || headerNamed(headers, unmetHeader) != nil {
			return false
		}
		if possible, err := andHeaders(match, condition); err != nil || !possible {
			return false
		}
	}
	return true
}
