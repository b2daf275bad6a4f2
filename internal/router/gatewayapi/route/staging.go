package route

import "slices"

// indexedControllers returns controllers (status.parents[].controllerName) that name the resources of a rule by the
// rule's index. The resources of the last index appear and disappear together with a rule, and a proxy may receive them
// in the wrong order: Envoy Gateway 1.9.1 then answers 503 (NC).
func rulesByNumber() []string { return []string{"gateway.envoyproxy.io/gatewayclass-controller"} }

// unmatchableHeader is the header of a condition that no request meets.
const unmetHeader = "x-rollouts-unmet"

// Staged returns a route to be written before applied, which Apply returned for object: the added or removed managed
// rules of the Rollout are in it, with a condition that no request meets. Once the proxies have applied it, writing
// applied costs no request. The result is nil if applied can be written directly: no rule is added or removed, such
// rules are unmatchable already, or none of the controllers indexes rules.
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
	staged, changed := before, false
	switch n := len(before.rules); {
	case len(after.rules) < n:
		changed = before.unmeet(before.rules, after.rules)
	case len(after.rules) > n:
		staged, changed = after, after.unmeet(after.rules[n:], before.rules)
	}
	if !changed {
		return nil
	}
	staged.settle()
	return staged.close()
}

// hasIndexedController reports whether one of indexedControllers has reported on the route.
func (d *draft) isServedByNumber() bool {
	status, _ := d.object["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	return slices.ContainsFunc(parents, func(parent any) bool {
		report, _ := parent.(map[string]any)
		return slices.Contains(rulesByNumber(), textOf(report, "controllerName", ""))
	})
}

// makeUnmatchable adds a condition that no request meets to those of the Rollout's managed rules that are not in
// others, and reports whether there are any.
func (d *draft) unmeet(rules, others []*rule) bool {
	changed := false
	for _, r := range rules {
		isKept := slices.ContainsFunc(others, func(other *rule) bool { return equal(other.fields, r.fields) })
		if r.owner == d.want.Rollout && !isKept && d.unmeetOne(r) {
			changed = true
		}
	}
	return changed
}

// makeRuleUnmatchable is makeUnmatchable for one rule.
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
