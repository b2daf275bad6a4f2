package route

import "slices"

// place puts the Rollout's managed rules among the others.
//
// Which of several rules takes a request is a matter of how much they ask (path, method, number of headers and of query parameters), and only between equals one
// of place (Gateway API, HTTPRouteRule and GRPCRouteRule, matches). A managed rule asks at least what its source asks, and a header route more than that. So a rule that
// no other can be the equal of goes behind the user's rules: some implementations tell rules apart by their number, and lose requests when one that comes or goes
// in front of the others renumbers them. What has an equal goes in front.
func (d *draft) place(block []*rule) error {
	equals := map[demand]bool{}
	for _, r := range d.rules {
		if r.owner == "" {
			if err := r.demand(equals); err != nil {
				return err
			}
		}
	}
	var front, behind []*rule
	for _, r := range slices.Backward(block) {
		own := map[demand]bool{}
		if err := r.demand(own); err != nil {
			return err
		}
		hasEqual := false
		for one := range own {
			hasEqual = hasEqual || equals[one]
		}
		if !hasEqual {
			behind = append(behind, r)
			continue
		}
		front = append(front, r)
		for one := range own {
			equals[one] = true // What is listed before it has to stay before it.
		}
	}
	slices.Reverse(front)
	slices.Reverse(behind)
	d.rules = slices.Insert(d.rules, d.front(), front...)
	d.rules = slices.Insert(d.rules, d.back(), behind...)
	return nil
}

// front is where those of the Rollout's managed rules begin that stand before every user's rule, and behind the managed rules of Rollouts that come first by name,
// so that the order doesn't depend on who came when.
func (d *draft) front() int {
	at := 0
	for at < len(d.rules) && d.rules[at].owner != "" && d.rules[at].owner < d.want.Rollout {
		at++
	}
	return at
}

// back is where those begin that stand behind every user's rule, in the same order.
func (d *draft) back() int {
	at := len(d.rules)
	for at > 0 && d.rules[at-1].owner > d.want.Rollout {
		at--
	}
	return at
}

// demand is how much a match asks of a request, its path aside: that may be of equal weight for any two, for all that is looked at here.
type demand struct {
	method               bool
	headers, queryParams int
}

// demand adds what the matches of the rule ask. A rule without matches has one that asks nothing.
func (r *rule) demand(all map[demand]bool) error {
	matches, err := objectsAt(r.fields, "matches", r.path+".matches")
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		all[demand{}] = true
	}
	for _, match := range matches {
		headers, _ := match["headers"].([]any)
		queryParams, _ := match["queryParams"].([]any)
		_, hasMethod := match["method"].(string) // A GRPCRoute's is an object, and what stands there for the path.
		all[demand{hasMethod, len(headers), len(queryParams)}] = true
	}
	return nil
}
