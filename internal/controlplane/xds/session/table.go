package session

import (
	"iter"
	"slices"
	"strings"
)

// bucketCount is the number of buckets of a table. With 10,000 resources a bucket has 156.
const bucketCount = 64

// table maps names to resources. It is immutable. The table that follows shares all buckets without a change. So a
// change is cheap among many resources, and the difference between two tables is found without reading what they share.
// The zero value is empty.
type table struct {
	buckets *[bucketCount]bucket
}

// bucket contains resources in order of name.
type bucket []*Resource

// bucketOf returns the index of the bucket of a name, by FNV-1a (https://datatracker.ietf.org/doc/html/rfc9923).
func bucketOf(name string) int {
	const offset, prime = 2166136261, 16777619
	hash := uint32(offset)
	for i := range len(name) {
		hash = (hash ^ uint32(name[i])) * prime
	}
	return int((hash ^ hash>>16) % bucketCount)
}

// isSame reports whether two buckets share their memory.
func (b bucket) isSame(other bucket) bool {
	return len(b) == len(other) && (len(b) == 0 || &b[0] == &other[0])
}

// bucket returns one of the buckets.
func (t table) bucket(i int) bucket {
	if t.buckets == nil {
		return nil
	}
	return t.buckets[i]
}

// get returns the resource of a name, nil for none.
func (t table) get(name string) *Resource { return t.bucket(bucketOf(name)).get(name) }

// get is table.get for a name of the bucket.
func (b bucket) get(name string) *Resource {
	i, exists := slices.BinarySearchFunc(b, name, func(res *Resource, name string) int {
		return strings.Compare(res.name, name)
	})
	if !exists {
		return nil
	}
	return b[i]
}

// all iterates over all resources, in no order.
func (t table) all() iter.Seq2[string, *Resource] {
	return func(yield func(string, *Resource) bool) {
		for i := range bucketCount {
			for _, res := range t.bucket(i) {
				if !yield(res.name, res) {
					return
				}
			}
		}
	}
}

// with returns the table in which these names have these resources, nil for none.
func (t table) with(changed map[string]*Resource) table {
	if len(changed) == 0 {
		return t
	}
	var byBucket [bucketCount][]string
	for name := range changed {
		byBucket[bucketOf(name)] = append(byBucket[bucketOf(name)], name)
	}
	next := new([bucketCount]bucket)
	for i, names := range byBucket {
		next[i] = t.bucket(i).with(names, changed)
	}
	return table{next}
}

// with is table.with for the names of the bucket.
func (b bucket) with(names []string, changed map[string]*Resource) bucket {
	if len(names) == 0 {
		return b
	}
	next := make(bucket, 0, len(b)+len(names))
	for _, name := range names {
		if res := changed[name]; res != nil {
			next = append(next, res)
		}
	}
	for _, res := range b {
		if _, isChanged := changed[res.name]; !isChanged {
			next = append(next, res)
		}
	}
	slices.SortFunc(next, byName)
	return slices.Clip(next)
}

// changedSince returns the names that have another version than in an earlier table, in order.
func (t table) changedSince(earlier table) []string {
	var names []string
	for i := range bucketCount {
		before, after := earlier.bucket(i), t.bucket(i)
		if after.isSame(before) {
			continue
		}
		for _, res := range after {
			if !before.get(res.name).equals(res) {
				names = append(names, res.name)
			}
		}
		for _, res := range before {
			if after.get(res.name) == nil {
				names = append(names, res.name)
			}
		}
	}
	slices.Sort(names)
	return names
}
