package session

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChangedNames adds names to sets, few and many, of published resources and of others.
func TestChangedNames(t *testing.T) {
	t.Parallel()
	names := func(prefix string, count int) []string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf("%s-%05d", prefix, i))
		}
		return all
	}
	published := map[string]*Resource{}
	for _, name := range names("web", 3*maxChanged) {
		published[name] = &Resource{name: name}
	}
	all := table{}.with(published)
	every := slices.Collect(maps.Keys(published))
	for name, test := range map[string]struct {
		added, want []string
		stored      int // 0 for all
	}{
		"none":     {},
		"few":      {added: names("web", 3), want: names("web", 3)},
		"the most": {added: names("web", maxChanged), want: names("web", maxChanged)},
		"many":     {added: names("web", maxChanged+1), want: every, stored: -1},
		"many, and of others": {
			added: slices.Concat(names("other", 3), names("web", 2*maxChanged), names("another", 2)),
			want:  slices.Concat(every, names("other", 3), names("another", 2)), stored: 5,
		},
		"many others": {
			added: names("other", 2*maxChanged), want: slices.Concat(every, names("other", 2*maxChanged)), stored: 2 * maxChanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var set changedNames
			for _, name := range test.added {
				set.add(name, all)
			}
			if test.stored != 0 && len(set.names) != max(test.stored, 0) {
				t.Errorf("%d names are stored, want %d", len(set.names), test.stored)
			}
			var got []string
			if taken := set.take(); taken != nil {
				got = slices.Sorted(taken)
			}
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if set.take() != nil {
				t.Error("the set has names after they were taken")
			}
		})
	}
}
