package route

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

// rule is one of spec.rules in a draft.
type rule struct {
	fields       map[string]any
	path         string // its original path, for messages: spec.rules[2]
	owner        string // the Rollout that owns a managed rule; empty for a user's rule
	managedRoute string // the managed route of a managed rule
}

// name returns spec.rules[].name; empty if there is none.
func (r *rule) name() string { return stringField(r.fields, "name", "") }

// draft is a copy of a route that is changed for one Intent. Each rule contains its owner, so that the record can be
// computed from the rules at the end.
type draft struct {
	intent    Intent
	object    map[string]any
	metadata  map[string]any
	spec      map[string]any
	namespace string // of the route
	rules     []*rule
	record    record
	unmatched map[string]map[string][]string // Rollout → managed route → marks that no rule has
	warnings  []reasons.Warning

	sessions     map[string]any // of the Rollout's rules, if the Intent has weights; nil for none
	sessionError error          // Report.SessionError
}

// newDraft returns a draft of object.
func newDraft(object map[string]any, want Intent) (*draft, error) {
	d := &draft{intent: want, object: maps.Clone(object), unmatched: map[string]map[string][]string{}}
	for _, field := range []string{"metadata", "spec"} {
		if value, ok := object[field]; ok {
			d.object[field] = clone(value)
		}
	}
	var err error
	if d.metadata, err = objectField(d.object, "metadata", "metadata"); err != nil {
		return nil, err
	}
	if d.spec, err = objectField(d.object, "spec", "spec"); err != nil {
		return nil, err
	}
	d.namespace = stringField(d.metadata, "namespace", want.Namespace)
	rules, err := objectListField(d.spec, "rules", "spec.rules")
	if err != nil {
		return nil, err
	}
	for i, fields := range rules {
		d.rules = append(d.rules, &rule{fields: fields, path: fmt.Sprintf("spec.rules[%d]", i)})
	}
	if _, err := objectField(d.metadata, "labels", "metadata.labels"); err != nil {
		return nil, err
	}
	annotations, err := objectField(d.metadata, "annotations", "metadata.annotations")
	if err != nil {
		return nil, err
	}
	if d.record, err = parseRecord(stringField(annotations, Annotation, "")); err != nil {
		d.warn(reasons.InvalidRouteRecord, err.Error()+": remove the annotation, and the rules of header and mirror routes "+
			"that are left over")
	}
	d.assignOwners()
	return d, nil
}

// warn adds a warning to the Report.
func (d *draft) warn(why, message string) {
	d.warnings = append(d.warnings, reasons.Warning{Reason: why, Message: message})
}

// assignOwners sets the owner of the rules that the record names.
func (d *draft) assignOwners() {
	if len(d.record) == 0 {
		return // hashes are expensive, and most routes have no record
	}
	byMark := map[string][]*rule{}
	for _, r := range d.rules {
		mark := markOf(r.fields)
		byMark[mark] = append(byMark[mark], r)
	}
	for _, rollout := range d.record.owners() {
		d.unmatched[rollout] = map[string][]string{}
		managed := d.record[rollout].Managed
		for _, route := range slices.Sorted(maps.Keys(managed)) {
			for _, mark := range managed[route] {
				d.assignOwner(byMark, mark, rollout, route)
			}
		}
	}
}

// assignOwner assigns the first rule with that mark to the managed route of rollout.
func (d *draft) assignOwner(byMark map[string][]*rule, mark, rollout, route string) {
	marked := byMark[mark]
	if len(marked) == 0 {
		d.unmatched[rollout][route] = append(d.unmatched[rollout][route], mark)
		return
	}
	marked[0].owner, marked[0].managedRoute = rollout, route
	byMark[mark] = marked[1:]
}

// ownEntry returns the Rollout's entry in the record. It adds a missing one.
func (d *draft) ownEntry() *entry {
	if d.record[d.intent.Rollout] == nil {
		d.record[d.intent.Rollout] = &entry{}
	}
	return d.record[d.intent.Rollout]
}

// removeManaged removes the managed rules of rollout from the route.
func (d *draft) removeManaged(rollout string) {
	d.rules = slices.DeleteFunc(d.rules, func(r *rule) bool { return r.owner == rollout })
}

// warnUnmatched warns about managed rules of rollout that can no longer be recognized, and removes them from its
// record. A rule with a name in its mark that is missing was deleted: that needs no warning.
func (d *draft) warnUnmatched(rollout string) {
	routes := make([]string, 0, len(d.unmatched[rollout]))
	for route, marks := range d.unmatched[rollout] {
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(mark, hashMark) }) {
			routes = append(routes, route)
		}
	}
	slices.Sort(routes)
	for _, route := range routes {
		d.warn(reasons.ManagedRuleEdited, fmt.Sprintf("spec.rules: a rule of managed route %q (rollout %q) was deleted or "+
			"edited; an edited rule is not changed or removed any more: delete it if it is not wanted", route, rollout))
	}
	delete(d.unmatched, rollout)
}

// updateMarks writes the marks of the managed rules to the record.
func (d *draft) updateMarks() {
	for rollout, e := range d.record {
		e.Managed = map[string][]string{}
		for route, marks := range d.unmatched[rollout] {
			e.Managed[route] = slices.Clone(marks)
		}
	}
	for _, r := range d.rules {
		if r.owner != "" {
			managed := d.record[r.owner].Managed
			managed[r.managedRoute] = append(managed[r.managedRoute], markOf(r.fields))
		}
	}
}

// finish writes rules and record to the object and returns it.
func (d *draft) finish() map[string]any {
	if len(d.rules) > 0 || d.spec["rules"] != nil {
		list := make([]any, len(d.rules))
		for i, r := range d.rules {
			list[i] = r.fields
		}
		d.spec["rules"] = list
	}
	d.setMetadata("annotations", Annotation, d.record.text())
	return d.object
}

// setMetadata sets a label or an annotation. An empty value removes it, and the map if that becomes empty.
func (d *draft) setMetadata(field, key, value string) {
	// newDraft and the API server reject anything but a map.
	entries, _ := d.metadata[field].(map[string]any)
	switch {
	case value != "" && entries == nil:
		d.metadata[field] = map[string]any{key: value}
		d.object["metadata"] = d.metadata
	case value != "":
		entries[key] = value
	case entries != nil:
		if _, ok := entries[key]; ok {
			delete(entries, key)
			if len(entries) == 0 {
				delete(d.metadata, field)
			}
		}
	}
}
