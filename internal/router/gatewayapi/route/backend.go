package route

import (
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model/serviceport"
)

// The defaults of a backendRef (Gateway API, BackendRef and BackendObjectReference).
const (
	defaultKind   = "Service"
	defaultWeight = int64(1)
)

// maxWeight is the maximum weight of a backendRef (Gateway API, BackendRef.weight).
const maxWeight = 1_000_000

// backends returns the backendRefs of a rule. They share their memory with the rule.
func (r *rule) backends() ([]map[string]any, error) {
	return objectListField(r.fields, "backendRefs", r.path+".backendRefs")
}

// isService reports whether a backendRef refers to the Service of that name in the Rollout's namespace.
func (d *draft) isService(ref map[string]any, service string) bool {
	return d.isServiceOf(ref, d.intent.Namespace, []string{service})
}

// isServiceOf reports whether a backendRef refers to one of the Services of a namespace.
func (d *draft) isServiceOf(ref map[string]any, namespace string, services []string) bool {
	return stringField(ref, "group", "") == "" && stringField(ref, "kind", defaultKind) == defaultKind &&
		slices.Contains(services, stringField(ref, "name", "")) && stringField(ref, "namespace", d.namespace) == namespace
}

// indexOf returns the index of the Service in backends, and -1 if it is missing. A duplicate is ErrAmbiguous.
func (d *draft) indexOf(r *rule, backends []map[string]any, service string) (int, error) {
	index := -1
	for i, ref := range backends {
		if !d.isService(ref, service) {
			continue
		}
		if index >= 0 {
			return -1, fmt.Errorf("%w: %s.backendRefs[%d] and [%d] are both Service %q: keep one of them", ErrAmbiguous, r.path,
				index, i, service)
		}
		index = i
	}
	return index, nil
}

// servicePair returns the indexes of the stable and the canary Service in the backends of a rule; both is false if one
// of them is missing.
func (d *draft) servicePair(r *rule) (backends []map[string]any, stable, canary int, hasBoth bool, err error) {
	if backends, err = r.backends(); err != nil {
		return nil, -1, -1, false, err
	}
	if stable, err = d.indexOf(r, backends, d.intent.Stable); err != nil {
		return nil, -1, -1, false, err
	}
	if canary, err = d.indexOf(r, backends, d.intent.Canary); err != nil {
		return nil, -1, -1, false, err
	}
	return backends, stable, canary, stable >= 0 && canary >= 0, nil
}

// inScope reports whether the Intent applies to this rule of a user.
func (d *draft) inScope(r *rule) bool {
	return r.owner == "" && (d.intent.RuleName == "" || r.name() == d.intent.RuleName)
}

// scope returns the Rule of the Rollout's entry: the rule name that the Intent is limited to.
func (d *draft) scope() string {
	if d.intent.RuleName == "" {
		return allRules
	}
	return d.intent.RuleName
}

// resetScope gives all weight to the stable Service in rules that were in the scope of before and are no longer
// sources, because the Rollout now names another rule.
func (d *draft) resetScope(sources []*rule, before string, weights Weights) error {
	total := weights.Stable + weights.Canary
	for _, other := range weights.Others {
		total += other.Weight
	}
	for _, r := range d.rules {
		if r.owner != "" || slices.Contains(sources, r) || before != allRules && r.name() != before {
			continue
		}
		backends, stable, canary, hasBoth, err := d.servicePair(r)
		if err != nil {
			return err
		}
		if hasBoth {
			backends[stable]["weight"], backends[canary]["weight"] = int64(total), int64(0)
		}
	}
	return nil
}

// sourceRules returns the user's rules in scope that have both Services. It is an error if there are none.
func (d *draft) sourceRules() ([]*rule, error) {
	if d.intent.RuleName != "" && !d.intent.HasRuleNames {
		return nil, fmt.Errorf("%w: the schema of %s in the cluster has no spec.rules[].name, so rule %q cannot be found: "+
			"install the CRDs of Gateway API v1.4 or later, or remove the rule name from the Rollout", ErrUnsupported,
			d.intent.Kind, d.intent.RuleName)
	}
	var sources []*rule
	var search serviceSearch
	for _, r := range d.rules {
		if !d.inScope(r) {
			continue
		}
		_, stable, canary, hasBoth, err := d.servicePair(r)
		if err != nil {
			return nil, err
		}
		search = serviceSearch{rule: true, stable: search.stable || stable >= 0, canary: search.canary || canary >= 0}
		if hasBoth {
			sources = append(sources, r)
		}
	}
	if len(sources) == 0 {
		return nil, d.noRuleError(search)
	}
	return sources, nil
}

// serviceSearch contains what was found of a pair of Services if no rule has both.
type serviceSearch struct{ rule, stable, canary bool }

// noRuleError returns the error for a route without a rule that has both Services.
func (d *draft) noRuleError(search serviceSearch) error {
	where := "spec.rules"
	if d.intent.RuleName != "" {
		where = fmt.Sprintf("spec.rules[name=%q]", d.intent.RuleName)
		if !search.rule {
			return fmt.Errorf("%w: spec.rules has no rule named %q: add it, or correct the rule name in the Rollout", ErrNoRule,
				d.intent.RuleName)
		}
	}
	problem := "neither is a backend of any rule"
	switch {
	case search.stable && search.canary:
		problem = "each is a backend, but not of the same rule"
	case search.stable:
		problem = fmt.Sprintf("%q is not a backend of any rule", d.intent.Canary)
	case search.canary:
		problem = fmt.Sprintf("%q is not a backend of any rule", d.intent.Stable)
	}
	if d.namespace != d.intent.Namespace {
		problem += fmt.Sprintf(" with namespace: %s (a backendRef without namespace refers to %s, the namespace of the "+
			"route)", d.intent.Namespace, d.namespace)
	}
	return fmt.Errorf("%w: %s: stable Service %q and canary Service %q: %s: add both to the backendRefs of one rule",
		ErrNoRule, where, d.intent.Stable, d.intent.Canary, problem)
}

// setWeights sets the weights and the destinations in the sources, and in the managed rules that are copies of such
// rules.
func (d *draft) setWeights(sources []*rule, weights Weights) error {
	for _, r := range d.rules {
		if !d.isWeighted(r, sources) {
			continue
		}
		backends, stable, canary, hasBoth, err := d.servicePair(r)
		if err != nil {
			return err
		}
		if !hasBoth {
			continue
		}
		backends[stable]["weight"] = int64(weights.Stable)
		backends[canary]["weight"] = int64(weights.Canary)
		if err := d.addDestinations(r, backends, canary, weights.Others); err != nil {
			return err
		}
	}
	return nil
}

// isWeighted reports whether setWeights applies to a rule: a source, or a managed rule that can be a copy of one.
func (d *draft) isWeighted(r *rule, sources []*rule) bool {
	isCopy := r.owner == d.intent.Rollout || r.owner != "" && d.intent.RuleName == ""
	return isCopy || slices.Contains(sources, r)
}

// addDestinations adds an experiment's Services directly after the canary: copies of its backendRef, so with its
// filters, each with its own name and the port that corresponds to the canary's.
func (d *draft) addDestinations(r *rule, backends []map[string]any, canary int, others []Destination) error {
	var added []map[string]any
	for _, other := range others {
		if at, err := d.indexOf(r, backends, other.Service); err != nil || at >= 0 {
			return fmt.Errorf("%w: %s.backendRefs already contains the experiment's Service %q: remove it there, the router "+
				"adds it while the experiment runs", ErrClash, r.path, other.Service)
		}
		ref := cloneMap(backends[canary])
		ref["name"], ref["weight"] = other.Service, int64(other.Weight)
		if err := d.setPort(ref, other); err != nil {
			return fmt.Errorf("%s.backendRefs[%d]: %w", r.path, canary, err)
		}
		added = append(added, ref)
	}
	if len(added) == 0 {
		return nil
	}
	if total := len(backends) + len(added); total > MaxBackends {
		return fmt.Errorf("%w: %s.backendRefs would have %d backends with those of the experiment, the maximum is %d: "+
			"remove backends, or run fewer templates", ErrLimit, r.path, total, MaxBackends)
	}
	r.fields["backendRefs"] = toList(slices.Insert(backends, canary+1, added...))
	return nil
}

// setPort sets the port of the backendRef of an experiment's Service, a copy of the canary's.
func (d *draft) setPort(ref map[string]any, other Destination) error {
	number, hasPort := numberField(ref, "port")
	if !hasPort || other.Ports == nil || d.intent.Weights.CanaryPorts == nil {
		return nil
	}
	canaryPorts := d.intent.Weights.CanaryPorts
	port, ok := serviceport.For(canaryPorts, int32(number), other.Ports) //nolint:gosec // a port, by the schema
	if !ok {
		return fmt.Errorf("%w: Service %q has no port that corresponds to port %d of Service %q; its ports: %s: give the "+
			"experiment's template a single container port, or one with that number, its name or the name http", ErrClash,
			other.Service, number, d.intent.Canary, serviceport.Numbers(other.Ports))
	}
	ref["port"] = int64(port.Number)
	return nil
}

// removeDestinations removes the destinations of rollout's experiment from the rules that have its stable or its canary
// Service.
func (d *draft) removeDestinations(rollout string, services, destinations []string) error {
	if len(destinations) == 0 {
		return nil
	}
	namespace := namespaceOf(rollout)
	ours := func(ref map[string]any) bool { return d.isServiceOf(ref, namespace, services) }
	added := func(ref map[string]any) bool { return d.isServiceOf(ref, namespace, destinations) }
	for _, r := range d.rules {
		backends, err := r.backends()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(backends, ours) && slices.ContainsFunc(backends, added) {
			r.fields["backendRefs"] = toList(slices.DeleteFunc(backends, added))
		}
	}
	return nil
}

// highestWeight returns the highest weight of a Service in the sources; 0 if none has it. A missing weight is 1, as in
// the API.
func (d *draft) highestWeight(sources []*rule, service string) int32 {
	var highest int64
	for _, r := range sources {
		backends, err := r.backends()
		if err != nil {
			continue
		}
		for _, ref := range backends {
			if !d.isService(ref, service) {
				continue
			}
			weight, ok := numberField(ref, "weight")
			if !ok {
				weight = defaultWeight
			}
			highest = max(highest, weight)
		}
	}
	return int32(min(highest, maxWeight))
}
