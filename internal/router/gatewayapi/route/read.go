package route

import (
	"fmt"
	"maps"
	"slices"
)

// Holds returns nil when the spec of object is exactly as want asks for it, and otherwise an ErrDiffers that says what differs first, or the error of Apply.
// Labels and the record don't count: they share no requests.
func Holds(object map[string]any, want Intent) error {
	asked, _, err := Apply(object, want)
	if err != nil {
		return err
	}
	if what := difference("spec", object["spec"], asked["spec"]); what != "" {
		return fmt.Errorf("%w: %s", ErrDiffers, what)
	}
	return nil
}

// difference says what distinguishes two values of decoded JSON first; empty when nothing does.
func difference(path string, have, want any) string {
	if equal(have, want) {
		return ""
	}
	if have, is := have.(map[string]any); is {
		if want, is := want.(map[string]any); is {
			return differentField(path, have, want)
		}
	}
	if have, is := have.([]any); is {
		if want, is := want.([]any); is {
			for i := range min(len(have), len(want)) {
				if what := difference(fmt.Sprintf("%s[%d]", path, i), have[i], want[i]); what != "" {
					return what
				}
			}
			return fmt.Sprintf("%s has %d elements and should have %d", path, len(have), len(want))
		}
	}
	return fmt.Sprintf("%s is %.80s and should be %.80s", path, shown(have), shown(want))
}

// shown is a value in a message.
func shown(value any) string {
	if value == nil {
		return "missing"
	}
	return fmt.Sprint(value)
}

// differentField says in which field two objects differ first, by the fields' names.
func differentField(path string, have, want map[string]any) string {
	keys := map[string]bool{}
	for _, object := range []map[string]any{have, want} {
		for key := range object {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if what := difference(path+"."+key, have[key], want[key]); what != "" {
			return what
		}
	}
	return path + " differs"
}

// CanaryWeight is the highest weight that the canary Service of want has in a rule in scope that has both Services: its live share of the requests. A weight
// that is absent counts 1, as the API has it. It is 0 when there is no such rule. Nothing of want counts but the Services and the scope.
func CanaryWeight(object map[string]any, want Intent) int32 {
	want.NamedRules = true // A rule of the name in scope has it, whatever else is known of the schema.
	d, err := open(object, want)
	if err != nil {
		return 0
	}
	sources, err := d.sources()
	if err != nil {
		return 0
	}
	return d.canaryWeight(sources)
}

// Shared says whether requests go to the canary Service of want, or to a Service of its experiment, by any rule in scope. Nothing of want counts but the Rollout,
// the Services and the scope.
func Shared(object map[string]any, want Intent) bool {
	if CanaryWeight(object, want) > 0 {
		return true
	}
	d, err := open(object, want)
	if err != nil {
		return false
	}
	own := d.record[want.Rollout]
	return own != nil && own.Weighted
}

// Reported says whether any parent has reported on the route, in whatever generation.
func Reported(object map[string]any) bool {
	status, _ := object["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	return len(parents) > 0
}

// Owners are the Rollouts ("namespace/name") that the text of Annotation names, sorted.
func Owners(text string) []string {
	if text == "" {
		return nil
	}
	read, err := parseRecord(text)
	if err != nil {
		return nil
	}
	return read.owners()
}

// Accepted says whether every parent that the route names and that has reported on it accepts the route in its current generation: the conditions Accepted
// and ResolvedRefs True, with observedGeneration equal to metadata.generation (Gateway API, RouteParentStatus). If not, the text says what is missing. Reports
// of parents that the route doesn't name any more don't count; without any report the route is not accepted.
func Accepted(object map[string]any) (bool, string) {
	d, err := open(object, Intent{})
	if err != nil {
		return false, err.Error()
	}
	status, err := objectAt(object, "status", "status")
	if err != nil {
		return false, err.Error()
	}
	reports, err := objectsAt(status, "parents", "status.parents")
	if err != nil {
		return false, err.Error()
	}
	named, err := objectsAt(d.spec, "parentRefs", "spec.parentRefs")
	if err != nil {
		return false, err.Error()
	}
	generation, _ := numberOf(d.metadata, "generation")
	counted := 0
	for i, report := range reports {
		path := fmt.Sprintf("status.parents[%d]", i)
		parent, err := objectAt(report, "parentRef", path+".parentRef")
		if err != nil {
			return false, err.Error()
		}
		if !slices.ContainsFunc(named, func(ref map[string]any) bool { return d.parentOf(ref) == d.parentOf(parent) }) {
			continue
		}
		counted++
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			if missing := condition(report, path, kind, generation); missing != "" {
				return false, missing
			}
		}
	}
	if counted == 0 {
		return false, "status.parents: no parent in spec.parentRefs has reported on the route"
	}
	return true, ""
}

// parent is a parentRef with its defaults, to compare.
type parent struct {
	group, kind, namespace, name, section string
	port                                  int64
}

// parentOf reads a parentRef of the route.
func (d *draft) parentOf(ref map[string]any) parent {
	port, _ := numberOf(ref, "port")
	return parent{
		group: textOf(ref, "group", "gateway.networking.k8s.io"), kind: textOf(ref, "kind", "Gateway"), namespace: textOf(ref, "namespace", d.namespace),
		name: textOf(ref, "name", ""), section: textOf(ref, "sectionName", ""), port: port,
	}
}

// condition says why a condition of a parent's report is not True for a generation; empty when it is.
func condition(report map[string]any, path, kind string, generation int64) string {
	conditions, err := objectsAt(report, "conditions", path+".conditions")
	if err != nil {
		return err.Error()
	}
	for _, one := range conditions {
		if textOf(one, "type", "") != kind {
			continue
		}
		path := fmt.Sprintf("%s (%s): condition %s", path, textOf(report, "controllerName", "no controllerName"), kind)
		observed, _ := numberOf(one, "observedGeneration")
		switch {
		case textOf(one, "status", "") != "True":
			return fmt.Sprintf("%s is %s (%s): %.200s", path, textOf(one, "status", "missing"), textOf(one, "reason", ""), textOf(one, "message", ""))
		case observed != generation:
			return fmt.Sprintf("%s is about generation %d, the route has %d", path, observed, generation)
		}
		return ""
	}
	return fmt.Sprintf("%s (%s) has no condition %s", path, textOf(report, "controllerName", "no controllerName"), kind)
}

// RuleWeights are the backends of one rule, in its order.
type RuleWeights struct {
	// Path is where the rule stands, such as spec.rules[2].
	Path string
	// Services are the names of the backends, and Weights their weights, which is 1 where none is written.
	Services []string
	Weights  []int64
}

// Written are the weights in every rule in scope that has both Services of want. Nothing of want counts but the Services and the scope; the errors are those of
// Apply.
func Written(object map[string]any, want Intent) ([]RuleWeights, error) {
	want.NamedRules = true // A rule of the name in scope has it, whatever else is known of the schema.
	d, err := open(object, want)
	if err != nil {
		return nil, err
	}
	sources, err := d.sources()
	if err != nil {
		return nil, err
	}
	var written []RuleWeights
	for _, source := range sources {
		backends, err := source.backends()
		if err != nil {
			return nil, err
		}
		of := RuleWeights{Path: source.path}
		for _, backend := range backends {
			weight, given := numberOf(backend, "weight")
			if !given {
				weight = defaultWeight
			}
			of.Services, of.Weights = append(of.Services, textOf(backend, "name", "")), append(of.Weights, weight)
		}
		written = append(written, of)
	}
	return written, nil
}
