package route

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

// setManaged replaces the Rollout's managed rules with those of routes.
func (d *draft) setManaged(sources []*rule, routes []ManagedRoute) error {
	d.removeManaged(d.intent.Rollout)
	d.warnUnmatched(d.intent.Rollout)
	var block []*rule
	for _, route := range routes {
		rules, err := d.deriveRules(sources, route)
		if err != nil {
			return err
		}
		if d.intent.HasRuleNames {
			if err := d.assignNames(rules, block, route.Name); err != nil {
				return err
			}
		}
		block = append(block, rules...)
	}
	if len(block) == 0 {
		return nil
	}
	if err := d.insertManaged(block); err != nil {
		return err
	}
	return d.checkLimits(len(block))
}

// deriveRules returns the rules of one managed route: one for each source, except sources that no request can match
// together with the route.
func (d *draft) deriveRules(sources []*rule, route ManagedRoute) ([]*rule, error) {
	var rules []*rule
	for _, source := range sources {
		derived := &rule{
			fields: cloneMap(source.fields), owner: d.intent.Rollout, managedRoute: route.Name,
			path: fmt.Sprintf("managed route %q for %s", route.Name, source.path),
		}
		delete(derived.fields, "name")
		if route.Mirror == nil {
			d.removeRolloutSessions(source, derived)
		}
		matches, err := d.combineMatches(derived, route)
		if err != nil {
			return nil, fmt.Errorf("managed route %q, %s: %w", route.Name, source.path, err)
		}
		if len(matches) == 0 {
			continue
		}
		if err := checkLimit(derived.path, "matches", len(matches), MaxMatches); err != nil {
			return nil, err
		}
		derived.fields["matches"] = toList(matches)
		if err := d.setBackends(derived, route); err != nil {
			return nil, fmt.Errorf("managed route %q, %s: %w", route.Name, source.path, err)
		}
		rules = append(rules, derived)
	}
	if len(rules) == 0 {
		d.warn(reasons.ManagedRouteUnmatched, fmt.Sprintf("managed route %q of rollout %q matches no request: its conditions "+
			"contradict those of all rules: correct match of its step in spec.strategy.canary.steps", route.Name,
			d.intent.Rollout))
	}
	return rules, nil
}

// combineMatches returns the matches of a source, each combined with each condition of a managed route.
func (d *draft) combineMatches(derived *rule, route ManagedRoute) ([]map[string]any, error) {
	sourceMatches, err := objectListField(derived.fields, "matches", "matches")
	if err != nil {
		return nil, err
	}
	if len(sourceMatches) == 0 {
		sourceMatches = []map[string]any{{}}
	}
	conditions := []MirrorMatch{{Headers: route.Header}}
	if route.Mirror != nil {
		conditions = route.Mirror.Matches
	}
	var matches []map[string]any
	for i, match := range sourceMatches {
		for _, condition := range conditions {
			combined, possible, err := d.intent.Kind.combine(match, condition)
			if err != nil {
				return nil, fmt.Errorf("matches[%d]: %w", i, err)
			}
			if possible {
				matches = append(matches, combined)
			}
		}
	}
	return matches, nil
}

// setBackends sets the backends of a managed rule: the canary only, or those of the source with a mirror to the canary.
func (d *draft) setBackends(derived *rule, route ManagedRoute) error {
	backends, _, canary, _, err := d.servicePair(derived)
	if err != nil {
		return err
	}
	if route.Mirror == nil {
		only := backends[canary]
		only["weight"] = defaultWeight // that of the source may be 0
		derived.fields["backendRefs"] = toList([]map[string]any{only})
		return nil
	}
	filters, err := objectListField(derived.fields, "filters", "filters")
	if err != nil {
		return err
	}
	if err := checkLimit(derived.path, "filters", len(filters)+1, MaxFilters); err != nil {
		return err
	}
	derived.fields["filters"] = toList(append(filters, mirrorFilter(backends[canary], route.Mirror.Percent)))
	return nil
}

// mirrorFilter returns the filter that mirrors percent of the requests to a backend. 100 is the API's default and is
// not written, so that implementations without percentages accept the filter. All other defaults are written, because
// the rule is later recognized by its content.
func mirrorFilter(backend map[string]any, percent int32) map[string]any {
	target := map[string]any{"group": "", "kind": defaultKind, "name": backend["name"]}
	for _, key := range []string{"namespace", "port"} {
		if value, ok := backend[key]; ok {
			target[key] = value
		}
	}
	mirror := map[string]any{"backendRef": target}
	if percent != fullPercent {
		mirror["percent"] = int64(percent)
	}
	return map[string]any{"type": "RequestMirror", "requestMirror": mirror}
}

// assignNames names the rules of one managed route: <route>, <route>-1, <route>-2 and so on. Numbers of other managed
// rules are skipped. If a user's rule has the name, it is an error, because the name must be unique. A rule of that
// name with the same content is a managed rule with a lost record; it is replaced.
func (d *draft) assignNames(rules, block []*rule, route string) error {
	base := ruleName(route)
	number := 0
	for _, r := range rules {
		for {
			name := numberedName(base, number)
			number++
			hasName := func(other *rule) bool { return other.name() == name }
			index := slices.IndexFunc(d.rules, hasName)
			if index >= 0 && d.rules[index].owner == "" && equalExceptWeights(d.rules[index].fields, r.fields) {
				d.rules = slices.Delete(d.rules, index, index+1)
				index = -1
			}
			if index >= 0 && d.rules[index].owner == "" {
				return fmt.Errorf("%w: %s has the name %q, which the rules of managed route %q need: rename the rule or the "+
					"managed route", ErrClash, d.rules[index].path, name, route)
			} else if index >= 0 || slices.ContainsFunc(block, hasName) {
				continue
			}
			r.fields["name"] = name
			break
		}
	}
	return nil
}

// equalExceptWeights reports whether two rules are equal except for their names and the weights of their backends.
func equalExceptWeights(a, b map[string]any) bool {
	return equal(withoutWeights(a), withoutWeights(b))
}

// withoutWeights returns a copy of a rule without its name and the weights of its backends.
func withoutWeights(fields map[string]any) map[string]any {
	copied := cloneMap(fields)
	delete(copied, "name")
	backends, err := objectListField(copied, "backendRefs", "backendRefs")
	if err != nil {
		return copied
	}
	for _, backend := range backends {
		delete(backend, "weight")
	}
	return copied
}

// numberedName returns the name of a managed route's rule with that number, from 0.
func numberedName(base string, number int) string {
	if number == 0 {
		return base
	}
	return fmt.Sprintf("%s-%d", base, number)
}

// maxName is the maximum length of a managed rule's name without its number. (A SectionName has up to 253 bytes.)
const maxName = 245

// ruleName converts the name of a managed route to a rule name, which is a DNS-1123 subdomain (Gateway API,
// SectionName). Other names are converted; a part of their hash keeps them unique.
func ruleName(route string) string {
	name := strings.Map(func(char rune) rune {
		switch {
		case char >= 'a' && char <= 'z', char >= '0' && char <= '9':
			return char
		case char >= 'A' && char <= 'Z':
			return char + 'a' - 'A'
		default:
			return '-'
		}
	}, route)
	name = strings.Trim(name[:min(len(name), maxName)], "-")
	if name == route {
		return name
	}
	sum := sha256.Sum256([]byte(route))
	return strings.TrimPrefix(name+"-", "-") + hex.EncodeToString(sum[:3])
}
