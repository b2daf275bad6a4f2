package route

import "slices"

// insertManaged inserts the Rollout's managed rules.
//
// If several rules match a request, the most specific one wins (path, method, number of headers and of query
// parameters). The order decides only between equally specific ones (Gateway API, HTTPRouteRule and GRPCRouteRule,
// matches). A managed rule is at least as specific as its source, and a header route is more specific. So a rule that
// cannot be as specific as another one goes after the user's rules: some implementations identify rules by their index
// and lose requests if a rule is added or removed before others. A rule that can be as specific as another one goes
// before them.
func (d *draft) insertManaged(block []*rule) error {
	used := map[specificity]bool{}
	for _, r := range d.rules {
		if r.owner == "" {
			if err := r.addSpecificities(used); err != nil {
				return err
			}
		}
	}
	var front, behind []*rule
	for _, r := range slices.Backward(block) {
		ownSpecificities := map[specificity]bool{}
		if err := r.addSpecificities(ownSpecificities); err != nil {
			return err
		}
		hasEqual := false
		for specific := range ownSpecificities {
			hasEqual = hasEqual || used[specific]
		}
		if !hasEqual {
			behind = append(behind, r)
			continue
		}
		front = append(front, r)
		for specific := range ownSpecificities {
			used[specific] = true // rules listed before it must stay before it
		}
	}
	slices.Reverse(front)
	slices.Reverse(behind)
	d.rules = slices.Insert(d.rules, d.frontIndex(), front...)
	d.rules = slices.Insert(d.rules, d.backIndex(), behind...)
	return nil
}

// frontIndex returns the index of the Rollout's first managed rule before all user rules. Managed rules are sorted by
// Rollout, so that the result does not depend on the order of writes.
func (d *draft) frontIndex() int {
	at := 0
	for at < len(d.rules) && d.rules[at].owner != "" && d.rules[at].owner < d.intent.Rollout {
		at++
	}
	return at
}

// backIndex is frontIndex for the managed rules after all user rules.
func (d *draft) backIndex() int {
	at := len(d.rules)
	for at > 0 && d.rules[at-1].owner > d.intent.Rollout {
		at--
	}
	return at
}

// specificity is how specific a match is, without its path: paths of any two matches count as equally specific here.
type specificity struct {
	method               bool
	headers, queryParams int
}

// addSpecificities adds the specificities of the rule's matches to all. A rule without matches has one match without
// conditions.
func (r *rule) addSpecificities(all map[specificity]bool) error {
	matches, err := objectListField(r.fields, "matches", r.path+".matches")
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		all[specificity{}] = true
	}
	for _, match := range matches {
		headers, _ := match["headers"].([]any)
		queryParams, _ := match["queryParams"].([]any)
		_, hasMethod := match["method"].(string) // in a GRPCRoute it is an object that takes the place of the path
		all[specificity{hasMethod, len(headers), len(queryParams)}] = true
	}
	return nil
}
