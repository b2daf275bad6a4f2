package desired_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// names returns numbered hosts.
func names(prefix string, count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("%s%d.test", prefix, i))
	}
	return all
}

// TestIncompleteLists edits the hosts and path prefixes of a trigger whose object exists. Next to an invalid element, the
// object keeps those that it has: one of them may be the damaged one.
func TestIncompleteLists(t *testing.T) {
	t.Parallel()
	many, more := names("a", 200), names("b", 200)
	type lists struct{ hosts, prefixes []string }
	for name, c := range map[string]struct {
		hosts, prefixes string // of the edited trigger
		current, want   lists
	}{
		"a damaged host":         {"a.test,b test", "/", lists{[]string{"a.test", "b.test"}, []string{"/"}}, lists{[]string{"a.test", "b.test"}, []string{"/"}}},
		"the first is damaged":   {"a test,b.test", "/", lists{[]string{"a.test", "b.test"}, []string{"/"}}, lists{[]string{"b.test", "a.test"}, []string{"/"}}},
		"an empty element":       {"a.test,,c.test", "/", lists{[]string{"a.test", "b.test"}, []string{"/"}}, lists{[]string{"a.test", "c.test", "b.test"}, []string{"/"}}},
		"a damaged and a new":    {"c.test,http://a", "/", lists{[]string{"a.test"}, []string{"/"}}, lists{[]string{"c.test", "a.test"}, []string{"/"}}},
		"a removed and a typo":   {"a.test,c d", "/", lists{[]string{"a.test", "b.test"}, []string{"/"}}, lists{[]string{"a.test", "b.test"}, []string{"/"}}},
		"a damaged prefix":       {"a.test", "/a,b", lists{[]string{"a.test"}, []string{"/a", "/b"}}, lists{[]string{"a.test"}, []string{"/a", "/b"}}},
		"before, every path":     {"a.test", "/a,b", lists{[]string{"a.test"}, nil}, lists{[]string{"a.test"}, []string{"/a", "/"}}},
		"both lists":             {"c.test,?", "/c,?", lists{[]string{"a.test"}, []string{"/a"}}, lists{[]string{"c.test", "a.test"}, []string{"/c", "/a"}}},
		"only hosts are invalid": {"c.test,?", "/c", lists{[]string{"a.test"}, []string{"/a"}}, lists{[]string{"c.test", "a.test"}, []string{"/c"}}},
		"only prefixes are":      {"c.test", "/c,?", lists{[]string{"a.test"}, []string{"/a"}}, lists{[]string{"c.test"}, []string{"/c", "/a"}}},
		"more than the schema has": {
			strings.Join(many, ",") + ",?", "/",
			lists{more, []string{"/"}},
			lists{slices.Concat(many, more[:56]), []string{"/"}},
		},
		"corrected": {"a.test", "/", lists{[]string{"a.test", "b.test"}, []string{"/", "/b"}}, lists{[]string{"a.test"}, []string{"/"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaled := read[apis.ScaledObject](t, full)
			metadata := scaled.Spec.Triggers[0].Metadata
			metadata["hosts"], metadata["pathPrefixes"] = c.hosts, c.prefixes
			object := read[httpv1alpha1.HTTPScaledObject](t, made)
			object.Spec.Hosts, object.Spec.PathPrefixes = c.current.hosts, c.current.prefixes
			wants := desired.Desired(scaled, nil, address)
			compare := func() desired.Changes {
				return desired.Compare(scaled, wants, []*httpv1alpha1.HTTPScaledObject{object})
			}
			for _, update := range compare().Update {
				object.Spec = update.Spec
			}
			if got := object.Spec; !slices.Equal(got.Hosts, c.want.hosts) || !slices.Equal(got.PathPrefixes, c.want.prefixes) {
				t.Errorf("hosts %q, prefixes %q, want %q", got.Hosts, got.PathPrefixes, c.want)
			}
			if again := compare(); len(again.Update) > 0 {
				t.Errorf("it is written again: %+v", again.Update[0].Spec)
			}
			if created := desired.Compare(scaled, wants, nil).Create; len(created) != 1 ||
				slices.Contains(created[0].Spec.Hosts, "b.test") != strings.Contains(c.hosts, "b.test") {
				t.Errorf("a new object has hosts that the trigger lacks: %+v", created)
			}
		})
	}
}
