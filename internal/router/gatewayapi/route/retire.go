package route

import (
	"reflect"
	"slices"
)

// rulesByNumber are controllers that name what a rule needs by the number of the rule
// (status.parents[].controllerName). They take that away together with the last rule, and a
// proxy may follow the route a moment later: Envoy Gateway 1.9.1 then answers 503 (NC).
func rulesByNumber() []string { return []string{"gateway.envoyproxy.io/gatewayclass-controller"} }

// retiredHeader is the condition of a rule that is to match no request.
const retiredHeader = "x-rollouts-retired"

// Retired returns object with those managed rules of the Rollout that are gone in applied, which is
// what Apply made of the two, left where they are, but for requests that nobody sends. Once the
// proxies follow that, the rules can go without a request under way to them. It is nil where no rule
// has to be retired: none goes, those that go are retired already, or nobody serves the route who
// counts rules.
func Retired(object map[string]any, want Intent, applied map[string]any) map[string]any {
	want.Weights, want.Managed = nil, nil
	d, err := open(object, want)
	if err != nil || !d.isServedByNumber() {
		return nil
	}
	spec, _ := applied["spec"].(map[string]any)
	left, _ := spec["rules"].([]any)
	if len(left) >= len(d.rules) {
		return nil
	}
	retired := false
	for _, r := range d.rules {
		stays := slices.ContainsFunc(left, func(other any) bool { return reflect.DeepEqual(other, any(r.fields)) })
		if r.owner == want.Rollout && !stays && d.retire(r) {
			retired = true
		}
	}
	if !retired {
		return nil
	}
	d.settle()
	return d.close()
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

// retire adds a condition to a managed rule that no request fulfils, and says whether it did.
func (d *draft) retire(r *rule) bool {
	matches, err := objectsAt(r.fields, "matches", "matches")
	if err != nil || len(matches) == 0 {
		return false
	}
	condition := []HeaderMatch{{Name: retiredHeader, Type: Exact, Value: d.want.Rollout}}
	for _, match := range matches {
		headers, err := objectsAt(match, "headers", "headers")
		if err != nil || headerNamed(headers, retiredHeader) != nil {
			return false
		}
		if possible, err := andHeaders(match, condition); err != nil || !possible {
			return false
		}
	}
	return true
}
