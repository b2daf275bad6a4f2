package route

import "slices"

// indexedControllers returns controllers (status.parents[].controllerName) that name the resources of a rule by the
// rule's index. The resources of the last index appear and disappear together with a rule, and a proxy may receive them
// in the wrong order: Envoy Gateway 1.9.1 then answers 503 (NC).
func indexedControllers() []string { return []string{"gateway.envoyproxy.io/gatewayclass-controller"} }

// unmatchableHeader is the header of a condition that no request meets.
const unmatchableHeader = "x-rollouts-unmet"

// Staged returns a route to be written before applied, which Apply returned for object: the added or removed managed
// rules of the Rollout are in it, with a condition that no request meets. Once the proxies have applied it, writing
// applied costs no request. The result is nil if applied can be written directly: no rule is added or removed, such
// rules are unmatchable already, or none of the controllers indexes rules.
func Staged(object map[string]any, want Intent, applied map[string]any) map[string]any {
	want.Weights, want.ManagedRoutes = nil, nil
	before, err := newDraft(object, want)
	if err != nil || !before.hasIndexedController() {
		return nil
	}
	after, err := newDraft(applied, want)
	if err != nil {
		return nil
	}
	staged, changed := before, false
	switch n := len(before.rules); {
	case len(after.rules) < n:
		changed = before.makeUnmatchable(before.rules, after.rules)
	case len(after.rules) > n:
		staged, changed = after, after.makeUnmatchable(after.rules[n:], before.rules)
	}
	if !changed {
		return nil
	}
	staged.updateRecord()
	return staged.finish()
}

// hasIndexedController reports whether one of indexedControllers has reported on the route.
func (d *draft) hasIndexedController() bool {
	status, _ := d.object["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	return slices.ContainsFunc(parents, func(parent any) bool {
		report, _ := parent.(map[string]any)
		return slices.Contains(indexedControllers(), stringField(report, "controllerName", ""))
	})
}

// makeUnmatchable adds a condition that no request meets to those of the Rollout's managed rules that are not in
// others, and reports whether there are any.
func (d *draft) makeUnmatchable(rules, others []*rule) bool {
	changed := false
	for _, r := range rules {
		isKept := slices.ContainsFunc(others, func(other *rule) bool { return equal(other.fields, r.fields) })
		if r.owner == d.intent.Rollout && !isKept && d.makeRuleUnmatchable(r) {
			changed = true
		}
	}
	return changed
}

// makeRuleUnmatchable is makeUnmatchable for one rule.
func (d *draft) makeRuleUnmatchable(r *rule) bool {
	matches, err := objectListField(r.fields, "matches", "matches")
	if err != nil || len(matches) == 0 {
		return false
	}
	condition := []HeaderMatch{{Name: unmatchableHeader, Type: Exact, Value: d.intent.Rollout}}
	for _, match := range matches {
		headers, err := objectListField(match, "headers", "headers")
		if err != nil || headerNamed(headers, unmatchableHeader) != nil {
			return false
		}
		if possible, err := addHeaders(match, condition); err != nil || !possible {
			return false
		}
	}
	return true
}
