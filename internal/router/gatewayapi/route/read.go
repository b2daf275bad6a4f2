package route

import (
	"fmt"
	"maps"
	"slices"
)

// CheckSpec returns nil if the spec of object matches want, otherwise an ErrDiffers with the first difference, an error
// of Apply, or Report.SessionError. Labels and the record are ignored: they route no requests.
func CheckSpec(object map[string]any, want Intent) error {
	desired, report, err := Apply(object, want)
	if err != nil {
		return err
	}
	if report.SessionError != nil {
		return report.SessionError
	}
	if difference := firstDifference("spec", object["spec"], desired["spec"]); difference != "" {
		return fmt.Errorf("%w: %s", ErrDiffers, difference)
	}
	return nil
}

// firstDifference describes the first difference between two values of decoded JSON; empty if they are equal.
func firstDifference(path string, have, want any) string {
	if equal(have, want) {
		return ""
	}
	if have, ok := have.(map[string]any); ok {
		if want, ok := want.(map[string]any); ok {
			return firstDifferentField(path, have, want)
		}
	}
	if have, ok := have.([]any); ok {
		if want, ok := want.([]any); ok {
			for i := range min(len(have), len(want)) {
				if difference := firstDifference(fmt.Sprintf("%s[%d]", path, i), have[i], want[i]); difference != "" {
					return difference
				}
			}
			return fmt.Sprintf("%s has %d elements and should have %d", path, len(have), len(want))
		}
	}
	return fmt.Sprintf("%s is %.80s and should be %.80s", path, formatValue(have), formatValue(want))
}

// formatValue formats a value for a message.
func formatValue(value any) string {
	if value == nil {
		return "missing"
	}
	return fmt.Sprint(value)
}

// firstDifferentField describes the difference in the first different field of two objects, by name.
func firstDifferentField(path string, have, want map[string]any) string {
	keys := map[string]bool{}
	for _, object := range []map[string]any{have, want} {
		for key := range object {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if difference := firstDifference(path+"."+key, have[key], want[key]); difference != "" {
			return difference
		}
	}
	return path + " differs"
}

// CanaryWeight returns the highest live weight of want's canary Service in a rule in scope that has both Services; 0 if
// there is no such rule. A missing weight is 1, as in the API. It uses only the Services and the scope of want.
func CanaryWeight(object map[string]any, want Intent) int32 {
	want.HasRuleNames = true // a rule with that name proves that the schema has names
	d, err := newDraft(object, want)
	if err != nil {
		return 0
	}
	sources, err := d.sourceRules()
	if err != nil {
		return 0
	}
	return d.highestWeight(sources, want.Canary)
}

// HasCanaryTraffic reports whether a rule in scope routes requests to want's canary Service or a Service of its
// experiment. It uses only the Rollout, the Services and the scope of want.
func HasCanaryTraffic(object map[string]any, want Intent) bool {
	if CanaryWeight(object, want) > 0 {
		return true
	}
	d, err := newDraft(object, want)
	if err != nil {
		return false
	}
	entry := d.record[want.Rollout]
	return entry != nil && entry.Weighted
}

// HasStatus reports whether a parent has reported on the route, for any generation.
func HasStatus(object map[string]any) bool {
	status, _ := object["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	return len(parents) > 0
}

// Owners returns the Rollouts ("namespace/name") in the text of Annotation, sorted.
func Owners(text string) []string {
	if text == "" {
		return nil
	}
	parsed, err := parseRecord(text)
	if err != nil {
		return nil
	}
	return parsed.owners()
}

// Accepted reports whether every parent in spec.parentRefs accepts the current generation: the conditions Accepted and
// ResolvedRefs are True, with observedGeneration equal to metadata.generation (Gateway API, RouteParentStatus). If not,
// it returns the reason. Reports of other parents are ignored.
func Accepted(object map[string]any) (bool, string) {
	reports, unreported, err := readReports(object)
	if err != nil {
		return false, err.Error()
	}
	for _, report := range reports {
		if report.isNamed && report.problem != "" {
			return false, report.problem
		}
	}
	switch {
	case !slices.ContainsFunc(reports, func(r parentReport) bool { return r.isNamed }):
		return false, "status.parents: no parent in spec.parentRefs has reported on the route"
	case len(unreported) > 0:
		return false, "status.parents: " + unreported[0].String() + " has never reported on the route"
	}
	return true, ""
}

// Unreported returns which parents of the route have never reported on it, if nothing else keeps the route from being
// accepted; otherwise an empty text. Either no parent has ever reported, or one in spec.parentRefs has not, while all
// others accept the current generation. A parent counts as one that has reported if another report of the same Gateway,
// for any listener, does not accept the current generation.
func Unreported(object map[string]any) string {
	reports, unreported, err := readReports(object)
	switch {
	case err != nil:
		return ""
	case len(reports) == 0:
		return "no Gateway has ever reported on the route"
	case len(unreported) == 0 || !slices.ContainsFunc(reports, func(r parentReport) bool { return r.isNamed }):
		return ""
	}
	for _, report := range reports {
		isOfUnreported := slices.ContainsFunc(unreported, report.parent.isSameObject)
		if report.problem != "" && (report.isNamed || isOfUnreported) {
			return ""
		}
	}
	return unreported[0].String() + " has never reported on the route"
}

// parentReport is one of status.parents.
type parentReport struct {
	fields  map[string]any
	path    string // for messages: status.parents[1]
	parent  parent
	isNamed bool   // spec.parentRefs has the parent
	problem string // why it does not accept the current generation; empty if it does
}

// readReports returns the reports on a route, and the parents in spec.parentRefs without one.
func readReports(object map[string]any) (reports []parentReport, unreported []parent, err error) {
	d, err := newDraft(object, Intent{})
	if err != nil {
		return nil, nil, err
	}
	status, err := objectField(d.object, "status", "status")
	if err != nil {
		return nil, nil, err
	}
	all, err := objectListField(status, "parents", "status.parents")
	if err != nil {
		return nil, nil, err
	}
	refs, err := objectListField(d.spec, "parentRefs", "spec.parentRefs")
	if err != nil {
		return nil, nil, err
	}
	for _, ref := range refs {
		unreported = append(unreported, d.parentOf(ref))
	}
	named := slices.Clone(unreported)
	for i, fields := range all {
		report := parentReport{fields: fields, path: fmt.Sprintf("status.parents[%d]", i)}
		ref, err := objectField(fields, "parentRef", report.path+".parentRef")
		if err != nil {
			return nil, nil, err
		}
		report.parent = d.parentOf(ref)
		report.isNamed, report.problem = slices.Contains(named, report.parent), d.reportProblem(report)
		unreported = slices.DeleteFunc(unreported, func(p parent) bool { return p == report.parent })
		reports = append(reports, report)
	}
	return reports, unreported, nil
}

// reportProblem returns why a report does not accept the current generation; empty if it does.
func (d *draft) reportProblem(report parentReport) string {
	generation, _ := numberField(d.metadata, "generation")
	for _, kind := range []string{"Accepted", "ResolvedRefs"} {
		if problem := conditionProblem(report.fields, report.path, kind, generation); problem != "" {
			return problem
		}
	}
	return ""
}

// parent is a parentRef with its defaults, for comparison.
type parent struct {
	group, kind, namespace, name, section string
	port                                  int64
}

// String returns the parent's kind, namespace and name, and its listener if there is one.
func (p parent) String() string {
	text := fmt.Sprintf("%s %q", p.kind, p.namespace+"/"+p.name)
	if p.section != "" {
		text += fmt.Sprintf(" (sectionName %q)", p.section)
	}
	if p.port != 0 {
		text += fmt.Sprintf(" (port %d)", p.port)
	}
	return text
}

// isSameObject reports whether other is the same Gateway or other object, for any listener.
func (p parent) isSameObject(other parent) bool {
	p.section, p.port, other.section, other.port = "", 0, "", 0
	return p == other
}

// parentOf converts a parentRef of the route.
func (d *draft) parentOf(ref map[string]any) parent {
	port, _ := numberField(ref, "port")
	return parent{
		group: stringField(ref, "group", "gateway.networking.k8s.io"), kind: stringField(ref, "kind", "Gateway"),
		namespace: stringField(ref, "namespace", d.namespace),
		name:      stringField(ref, "name", ""), section: stringField(ref, "sectionName", ""), port: port,
	}
}

// conditionProblem returns why a condition in a parent's report is not True for a generation; empty if it is.
func conditionProblem(report map[string]any, path, kind string, generation int64) string {
	conditions, err := objectListField(report, "conditions", path+".conditions")
	if err != nil {
		return err.Error()
	}
	for _, condition := range conditions {
		if stringField(condition, "type", "") != kind {
			continue
		}
		path := fmt.Sprintf("%s (%s): condition %s", path, stringField(report, "controllerName", "no controllerName"), kind)
		observed, _ := numberField(condition, "observedGeneration")
		switch {
		case stringField(condition, "status", "") != "True":
			return fmt.Sprintf("%s is %s (%s): %.200s", path, stringField(condition, "status", "missing"),
				stringField(condition, "reason", ""), stringField(condition, "message", ""))
		case observed == 0:
			return path + " has no observedGeneration"
		case observed != generation:
			return fmt.Sprintf("%s is about generation %d, the route has %d", path, observed, generation)
		}
		return ""
	}
	return fmt.Sprintf("%s (%s) has no condition %s", path, stringField(report, "controllerName", "no controllerName"),
		kind)
}

// RuleWeights are the backends of one rule, in its order.
type RuleWeights struct {
	// Path is the path of the rule, e.g. spec.rules[2].
	Path string
	// Services are the names of the backends, and Weights their weights. A missing weight is 1.
	Services []string
	Weights  []int64
}

// ReadWeights returns the weights in every rule in scope that has both Services of want. It uses only the Services and
// the scope of want; the errors are those of Apply.
func ReadWeights(object map[string]any, want Intent) ([]RuleWeights, error) {
	want.HasRuleNames = true // a rule with that name proves that the schema has names
	d, err := newDraft(object, want)
	if err != nil {
		return nil, err
	}
	sources, err := d.sourceRules()
	if err != nil {
		return nil, err
	}
	var written []RuleWeights
	for _, source := range sources {
		backends, err := source.backends()
		if err != nil {
			return nil, err
		}
		weights := RuleWeights{Path: source.path}
		for _, backend := range backends {
			weight, ok := numberField(backend, "weight")
			if !ok {
				weight = defaultWeight
			}
			weights.Services = append(weights.Services, stringField(backend, "name", ""))
			weights.Weights = append(weights.Weights, weight)
		}
		written = append(written, weights)
	}
	return written, nil
}
