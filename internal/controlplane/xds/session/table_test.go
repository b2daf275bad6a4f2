package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTableEqualsMap plays random changes to tables and to maps, and requires the same content of both, also of earlier
// tables.
func TestTableEqualsMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 6))
		tables, wanted := []table{{}}, []map[string]*Resource{{}}
		for step := range 40 {
			changed := map[string]*Resource{}
			for range random.IntN(30) {
				name := fmt.Sprint("c", random.IntN(300))
				changed[name] = nil
				if random.IntN(3) > 0 {
					changed[name] = &Resource{name: name, version: version{byte(random.IntN(3))}}
				}
			}
			want := maps.Clone(wanted[step])
			maps.Copy(want, changed)
			maps.DeleteFunc(want, func(_ string, res *Resource) bool { return res == nil })
			tables, wanted = append(tables, tables[step].with(changed)), append(wanted, want)
		}
		last := len(tables) - 1
		for at := range tables {
			if got := mapOf(tables[at]); !maps.Equal(got, wanted[at]) {
				t.Fatalf("seed %d: table %d has %v, want %v", seed, at, got, wanted[at])
			}
			for i := range 300 {
				if name := fmt.Sprint("c", i); tables[at].get(name) != wanted[at][name] {
					t.Fatalf("seed %d: table %d has %v for %s", seed, at, tables[at].get(name), name)
				}
			}
			if diff := cmp.Diff(
				difference(wanted[at], wanted[last]), tables[last].changedSince(tables[at]),
			); diff != "" {
				t.Fatalf("seed %d: changes since table %d (-want +got):\n%s", seed, at, diff)
			}
		}
	}
}

// difference returns the names with different versions in two maps, in order.
func difference(before, now map[string]*Resource) []string {
	all := maps.Clone(before)
	maps.Copy(all, now)
	names := slices.Sorted(maps.Keys(all))
	names = slices.DeleteFunc(names, func(name string) bool {
		return now[name] != nil && before[name].equals(now[name])
	})
	if len(names) == 0 {
		return nil
	}
	return names
}

// TestTableSharesUnchangedBuckets requires that a table shares all buckets but one with the table before.
func TestTableSharesUnchangedBuckets(t *testing.T) {
	t.Parallel()
	all := map[string]*Resource{}
	for i := range 1000 {
		name := fmt.Sprint("c", i)
		all[name] = &Resource{name: name, version: version{1}}
	}
	before := table{}.with(all)
	now := before.with(map[string]*Resource{"c7": {name: "c7", version: version{2}}})
	others := 0
	for at := range bucketCount {
		if !now.buckets[at].isSame(before.buckets[at]) {
			others++
		}
	}
	if others != 1 {
		t.Errorf("%d of %d parts are others, want one", others, bucketCount)
	}
}
