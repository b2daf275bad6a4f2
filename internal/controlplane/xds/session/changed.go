package session

import (
	"iter"
	"maps"
)

// maxChanged is how many names a changedNames stores.
const maxChanged = 2000

// changedNames is a set of names of one kind. The zero value is empty.
//
// A proxy that joins changes the state of every resource, so the set contains the published resources as a whole once
// it has many names: their table takes no further memory.
type changedNames struct {
	names map[string]struct{}
	all   table // the names of its resources are in the set, too
}

// add adds a name. published are the resources of the kind.
func (c *changedNames) add(name string, published table) {
	if c.all.get(name) != nil {
		return
	}
	if c.names == nil {
		c.names = map[string]struct{}{}
	}
	c.names[name] = struct{}{}
	if len(c.names) > maxChanged && c.all.buckets == nil && published.buckets != nil {
		c.all = published
		maps.DeleteFunc(c.names, func(name string, _ struct{}) bool { return published.get(name) != nil })
		c.names = maps.Collect(maps.All(c.names)) // A map never shrinks.
	}
}

// take returns the names, in no order, and empties the set. The result is nil if there are none.
func (c *changedNames) take() iter.Seq[string] {
	taken := *c
	*c = changedNames{}
	if len(taken.names) == 0 && taken.all.buckets == nil {
		return nil
	}
	return func(yield func(string) bool) {
		for name := range taken.all.all() {
			if !yield(name) {
				return
			}
		}
		for name := range taken.names {
			if !yield(name) {
				return
			}
		}
	}
}
