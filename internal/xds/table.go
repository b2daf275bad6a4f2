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

// find returns the place of a name, and whether it is there.
func (p part) find(name string) (place int, isThere bool) {
	return slices.BinarySearchFunc(p, name, func(res *resource, name string) int {
		return strings.Compare(res.name, name)
	})
}

// isSame tells whether two parts are one.
func (p part) isSame(other part) bool {
	return len(p) == len(other) && (len(p) == 0 || &p[0] == &other[0])
}

// get returns the resource of a name, nil for none.
func (t table) get(name string) *resource {
	if t.parts == nil {
		return nil
	}
	in := t.parts[partOf(name)]
	if place, isThere := in.find(name); isThere {
		return in[place]
	}
	return nil
}

// all visits all resources, in no order.
func (t table) all() iter.Seq2[string, *resource] {
	return func(yield func(string, *resource) bool) {
		if t.parts == nil {
			return
		}
		for _, in := range t.parts {
			for _, res := range in {
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
	if t.parts != nil {
		*next = *t.parts
	}
	for at, names := range byPart {
		if len(names) > 0 {
			next[at] = next[at].with(names, changed)
		}
	}
	return table{next}
}

// with is table.with for the names that are in the part.
func (p part) with(names []string, changed map[string]*resource) part {
	isChanged := make(map[string]struct{}, len(names))
	next := make(part, 0, len(p)+len(names))
	for _, name := range names {
		isChanged[name] = struct{}{}
		if res := changed[name]; res != nil {
			next = append(next, res)
		}
	}
	for _, res := range p {
		if _, is := isChanged[res.name]; !is {
			next = append(next, res)
		}
	}
	slices.SortFunc(next, byName)
	return slices.Clip(next)
}

// changedSince are the names that have another version than in an earlier table, in order.
func (t table) changedSince(earlier table) []string {
	var none [tableParts]part
	before, now := &none, &none
	if earlier.parts != nil {
		before = earlier.parts
	}
	if t.parts != nil {
		now = t.parts
	}
	var names []string
	for at := range tableParts {
		if now[at].isSame(before[at]) {
			continue
		}
		for _, res := range now[at] {
			if place, isThere := before[at].find(res.name); !isThere || !before[at][place].is(res) {
				names = append(names, res.name)
			}
		}
		for _, res := range before[at] {
			if _, still := now[at].find(res.name); !still {
				names = append(names, res.name)
			}
		}
	}
	slices.Sort(names)
	return names
}
