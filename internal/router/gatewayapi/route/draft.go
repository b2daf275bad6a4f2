package route

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rule is one of spec.rules in a draft.
type rule struct {
	fields map[string]any
	path   string // its original path, for messages: spec.rules[2]
	owner  string // the Rollout that owns a managed rule; empty for a user's rule
	route  string // the managed route of a managed rule
}

// name returns spec.rules[].name; empty if there is none.
func (r *rule) name() string { return textOf(r.fields, "name", "") }

// draft is a copy of a route that is changed for one Intent. Each rule contains its owner, so that the record can be
// computed from the rules at the end.
type draft struct {
	want      Intent
	object    map[string]any
	metadata  map[string]any
	spec      map[string]any
	namespace string // of the route
	rules     []*rule
	record    record
	lost      map[string]map[string][]string // Rollout → managed route → marks that no rule has
	warnings  []string
}

// newDraft returns a draft of object.
func open(object map[string]any, want Intent) (*draft, error) {
	d := &draft{want: want, object: maps.Clone(object), lost: map[string]map[string][]string{}}
	for _, field := range []string{"metadata", "spec"} {
		if value, ok := object[field]; ok {
			d.object[field] = clone(value)
		}
	}
	var err error
	if d.metadata, err = objectAt(d.object, "metadata", "metadata"); err != nil {
		return nil, err
	}
	if d.spec, err = objectAt(d.object, "spec", "spec"); err != nil {
		return nil, err
	}
	d.namespace = textOf(d.metadata, "namespace", want.Namespace)
	rules, err := objectsAt(d.spec, "rules", "spec.rules")
	if err != nil {
		return nil, err
	}
	for i, fields := range rules {
		d.rules = append(d.rules, &rule{fields: fields, path: fmt.Sprintf("spec.rules[%d]", i)})
	}
	if _, err := objectAt(d.metadata, "labels", "metadata.labels"); err != nil {
		return nil, err
	}
	annotations, err := objectAt(d.metadata, "annotations", "metadata.annotations")
	if err != nil {
		return nil, err
	}
	if d.record, err = parseRecord(textOf(annotations, Annotation, "")); err != nil {
		d.warnings = append(d.warnings, err.Error())
	}
	d.claim()
	return d, nil
}

// assignOwners sets the owner of the rules that the record names.
func (d *draft) claim() {
	if len(d.record) == 0 {
		return // hashes are expensive, and most routes have no record
	}
	byMark := map[string][]*rule{}
	for _, r := range d.rules {
		mark := markOf(r.fields)
		byMark[mark] = append(byMark[mark], r)
	}
	for _, rollout := range d.record.owners() {
		d.lost[rollout] = map[string][]string{}
		managed := d.record[rollout].Managed
		for _, route := range slices.Sorted(maps.Keys(managed)) {
			for _, mark := range managed[route] {
				d.claimOne(byMark, mark, rollout, route)
			}
		}
	}
}

// assignOwner assigns the first rule with that mark to the managed route of rollout.
func (d *draft) claimOne(byMark map[string][]*rule, mark, rollout, route string) {
	marked := byMark[mark]
	if len(marked) == 0 {
		d.lost[rollout][route] = append(d.lost[rollout][route], mark)
		return
	}
	marked[0].owner, marked[0].route = rollout, route
	byMark[mark] = marked[1:]
}

// ownEntry returns the Rollout's entry in the record. It adds a missing one.
func (d *draft) entry() *entry {
	if d.record[d.want.Rollout] == nil {
		d.record[d.want.Rollout] = &entry{}
	}
	return d.record[d.want.Rollout]
}

// removeManaged removes the managed rules of rollout from the route.
func (d *draft) drop(rollout string) {
	d.rules = slices.DeleteFunc(d.rules, func(r *rule) bool { return r.owner == rollout })
}

// warnUnmatched warns about managed rules of rollout that can no longer be recognized, and removes them from its
// record. A rule with a name in its mark that is missing was deleted: that needs no warning.
func (d *draft) forgetLost(rollout string) {
	routes := make([]string, 0, len(d.lost[rollout]))
	for route, marks := range d.lost[rollout] {
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(mark, hashMark) }) {
			routes = append(routes, route)
		}
	}
	slices.Sort(routes)
	for _, route := range routes {
		d.warnings = append(d.warnings, fmt.Sprintf("spec.rules: a rule of managed route %q (rollout %q) was deleted or "+
			"edited; an edited rule is not "+
			"changed or removed any more: delete it if it is not wanted", route, rollout))
	}
	delete(d.lost, rollout)
}

// updateMarks writes the marks of the managed rules to the record.
func (d *draft) remark() {
	for rollout, e := range d.record {
		e.Managed = map[string][]string{}
		for route, marks := range d.lost[rollout] {
			e.Managed[route] = slices.Clone(marks)
		}
	}
	for _, r := range d.rules {
		if r.owner != "" {
			managed := d.record[r.owner].Managed
			managed[r.route] = append(managed[r.route], markOf(r.fields))
		}
	}
}

// finish writes rules and record to the object and returns it.
func (d *draft) close() map[string]any {
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
