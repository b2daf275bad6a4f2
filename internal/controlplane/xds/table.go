package xds

import (
	"iter"
	"slices"
	"strings"
)

// tableParts is the number of parts of a table. Of 10,000 resources a part has 156.
const tableParts = 64

// table finds resources by name. It is immutable: the table that follows shares all parts with it but
// those in which something is new, so that a change costs little among many others, and what two tables
// differ in is found without a look at what they share. The zero value is empty.
type table struct {
	parts *[tableParts]part
}

// part are resources in the order of their names.
type part []*resource

// partOf is the number of the part that a name is in, by FNV-1a
// (https://datatracker.ietf.org/doc/html/rfc9923).
func partOf(name string) int {
	const offset, prime = 2166136261, 16777619
	hash := uint32(offset)
	for i := range len(name) {
		hash = (hash ^ uint32(name[i])) * prime
	}
	return int((hash ^ hash>>16) % tableParts)
}

// isSame tells whether two parts are one.
func (p part) isSame(other part) bool {
	return len(p) == len(other) && (len(p) == 0 || &p[0] == &other[0])
}

// part returns one of the parts.
func (t table) part(at int) part {
	if t.parts == nil {
		return nil
	}
	return t.parts[at]
}

// get returns the resource of a name, nil for none.
func (t table) get(name string) *resource { return t.part(partOf(name)).get(name) }

// get is table.get for a name of the part.
func (p part) get(name string) *resource {
	place, isThere := slices.BinarySearchFunc(p, name, func(res *resource, name string) int {
		return strings.Compare(res.name, name)
	})
	if !isThere {
		return nil
	}
	return p[place]
}

// all visits all resources, in no order.
func (t table) all() iter.Seq2[string, *resource] {
	return func(yield func(string, *resource) bool) {
		for at := range tableParts {
			for _, res := range t.part(at) {
				if !yield(res.name, res) {
					return
				}
			}
		}
	}
}

// with returns the table in which these names have these resources, nil for none.
func (t table) with(changed map[string]*resource) table {
	if len(changed) == 0 {
		return t
	}
	var byPart [tableParts][]string
	for name := range changed {
		byPart[partOf(name)] = append(byPart[partOf(name)], name)
	}
	next := new([tableParts]part)
	for at, names := range byPart {
		next[at] = t.part(at).with(names, changed)
	}
	return table{next}
}

// with is table.with for the names that are in the part.
func (p part) with(names []string, changed map[string]*resource) part {
	if len(names) == 0 {
		return p
	}
	next := make(part, 0, len(p)+len(names))
	for _, name := range names {
		if res := changed[name]; res != nil {
			next = append(next, res)
		}
	}
	for _, res := range p {
		if _, isChanged := changed[res.name]; !isChanged {
			next = append(next, res)
		}
	}
	slices.SortFunc(next, byName)
	return slices.Clip(next)
}

// changedSince are the names that have another version than in an earlier table, in order.
func (t table) changedSince(earlier table) []string {
	var names []string
	for at := range tableParts {
		before, now := earlier.part(at), t.part(at)
		if now.isSame(before) {
			continue
		}
		for _, res := range now {
			if !before.get(res.name).is(res) {
				names = append(names, res.name)
			}
		}
		for _, res := range before {
			if now.get(res.name) == nil {
				names = append(names, res.name)
			}
		}
	}
	slices.Sort(names)
	return names
}
