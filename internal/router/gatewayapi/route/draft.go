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
	path   string // where it stood, for messages: spec.rules[2]
	owner  string // the Rollout whose managed rule it is; empty for a user's
	route  string // the managed route that it is of
}

// name is spec.rules[].name, empty when there is none.
func (r *rule) name() string { return textOf(r.fields, "name", "") }

// draft is a copy of a route that is being changed for one Intent. The rules know whose they are, so that the record can be written from them at the end,
// whatever happened to them in between.
type draft struct {
	want      Intent
	object    map[string]any
	metadata  map[string]any
	spec      map[string]any
	namespace string // of the route
	rules     []*rule
	record    record
	lost      map[string]map[string][]string // Rollout → managed route → marks that no rule answers to
	warnings  []string
}

// open makes a draft of object.
func open(object map[string]any, want Intent) (*draft, error) {
	d := &draft{want: want, object: maps.Clone(object), lost: map[string]map[string][]string{}}
	for _, touched := range []string{"metadata", "spec"} {
		if value, has := object[touched]; has {
			d.object[touched] = clone(value)
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

// claim finds the rules that the record names and tells each whose it is.
func (d *draft) claim() {
	if len(d.record) == 0 {
		return // Hashes cost something, and most routes are at rest.
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

// claimOne gives the first rule with that mark to the managed route of rollout.
func (d *draft) claimOne(byMark map[string][]*rule, mark, rollout, route string) {
	found := byMark[mark]
	if len(found) == 0 {
		d.lost[rollout][route] = append(d.lost[rollout][route], mark)
		return
	}
	found[0].owner, found[0].route = rollout, route
	byMark[mark] = found[1:]
}

// entry is the Rollout's entry in the record, made if it isn't there.
func (d *draft) entry() *entry {
	if d.record[d.want.Rollout] == nil {
		d.record[d.want.Rollout] = &entry{}
	}
	return d.record[d.want.Rollout]
}

// drop takes the managed rules of rollout out of the route.
func (d *draft) drop(rollout string) {
	d.rules = slices.DeleteFunc(d.rules, func(r *rule) bool { return r.owner == rollout })
}

// forgetLost warns about the rules of rollout that were edited beyond recognition, and no longer counts them as its own. A rule known by name and gone was
// deleted by somebody: nothing is left that could be said about it.
func (d *draft) forgetLost(rollout string) {
	routes := make([]string, 0, len(d.lost[rollout]))
	for route, marks := range d.lost[rollout] {
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(mark, hashMark) }) {
			routes = append(routes, route)
		}
	}
	slices.Sort(routes)
	for _, route := range routes {
		d.warnings = append(d.warnings, fmt.Sprintf("spec.rules: a rule of managed route %q (rollout %q) is gone or was edited; if a rule like it is still "+
			"there, it is left alone: remove it when it isn't wanted", route, rollout))
	}
	delete(d.lost, rollout)
}

// remark writes into the record by which marks the managed rules are found again.
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

// close puts rules and record into the object and returns it.
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

// setMetadata sets a label or an annotation; an empty value removes it, and the map with the last one.
func (d *draft) setMetadata(field, key, value string) {
	// Anything but a map was refused when the draft was opened, or by the API server.
	entries, _ := d.metadata[field].(map[string]any)
	switch {
	case value != "" && entries == nil:
		d.metadata[field] = map[string]any{key: value}
		d.object["metadata"] = d.metadata
	case value != "":
		entries[key] = value
	case entries != nil:
		if _, had := entries[key]; had {
			delete(entries, key)
			if len(entries) == 0 {
				delete(d.metadata, field)
			}
		}
	}
}
