package resolve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// matching is a part of an object's spec.
type matching struct {
	hosts, prefixes []string
	header          string
	isShared        bool
}

// object returns an object with it.
func (m matching) object() *httpv1alpha1.HTTPScaledObject {
	object := kit.NewScaledObject("apps", "shop", "shop", 1)
	object.Spec.Hosts, object.Spec.PathPrefixes = m.hosts, m.prefixes
	if m.header != "" {
		object.Spec.Headers = []httpv1alpha1.Header{{Name: m.header}}
	}
	if m.isShared {
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
	}
	return object
}

// matchTexts returns the Matches of a Config as text.
func matchTexts(config model.Config) []string {
	var texts []string
	for _, route := range config.Routes {
		words := []string{string(route.Match.Host) + route.Match.PathPrefix}
		for _, header := range route.Match.Headers {
			words = append(words, header.Name)
		}
		texts = append(texts, strings.Join(words, " "))
	}
	slices.Sort(texts)
	return texts
}

// numbered returns hosts h0.test, h1.test and so on.
func numbered(count int) []string {
	var hosts []string
	for i := range count {
		hosts = append(hosts, fmt.Sprintf("h%d.test", i))
	}
	return hosts
}

// TestInvalidMatches: the valid hosts and path prefixes of an object are served, and next to an invalid one the
// previous ones stay active. No error means every host or every path. Each problem names the field with its index.
func TestInvalidMatches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before   *matching // nil for a new object
		now      matching
		want     []string
		problems int
	}{
		"a new object": {
			nil, matching{hosts: []string{"a.test", "b c", "*.d.test"}}, []string{"*.d.test/", "a.test/"}, 1,
		},
		"no valid host":   {nil, matching{hosts: []string{"b c", "http://d"}}, nil, 2},
		"no valid prefix": {nil, matching{hosts: []string{"a.test"}, prefixes: []string{"x"}}, nil, 1},
		"an empty host":   {nil, matching{hosts: []string{""}}, nil, 1},
		"both": {
			nil, matching{hosts: []string{"a.test", "?"}, prefixes: []string{"x", "/y"}}, []string{"a.test/y"}, 2,
		},
		"an invalid header":   {nil, matching{hosts: []string{"a.test"}, header: "x y"}, nil, 1},
		"shared and no hosts": {nil, matching{isShared: true}, nil, 1},
		"an added host": {
			&matching{hosts: []string{"a.test"}},
			matching{hosts: []string{"a.test", "b.test", "c d"}},
			[]string{"a.test/", "b.test/"},
			1,
		},
		"a damaged host": {
			&matching{hosts: []string{"a.test", "b.test"}},
			matching{hosts: []string{"a.test", "b test"}},
			[]string{"a.test/", "b.test/"},
			1,
		},
		"all hosts are damaged, and the prefixes changed": {
			&matching{hosts: []string{"a.test"}, prefixes: []string{"/x"}},
			matching{hosts: []string{"a test"}, prefixes: []string{"/y"}},
			[]string{"a.test/y"},
			1,
		},
		"a damaged prefix": {
			&matching{hosts: []string{"a.test"}, prefixes: []string{"/x"}},
			matching{hosts: []string{"b.test"}, prefixes: []string{"x", "/y"}},
			[]string{"b.test/x", "b.test/y"},
			1,
		},
		"a damaged host, and new headers": {
			&matching{hosts: []string{"a.test"}},
			matching{hosts: []string{"a.test", "b c"}, header: "x-team"},
			[]string{"a.test/ x-team"},
			1,
		},
		"a damaged header": {
			&matching{hosts: []string{"a.test"}, header: "x-team"},
			matching{hosts: []string{"b.test"}, header: "x team"},
			[]string{"a.test/ x-team"},
			1,
		},
		"too many in addition to the previous ones": {
			&matching{hosts: []string{"a.test"}},
			matching{hosts: append(numbered(254), "b.test", "c d")},
			slices.Sorted(slices.Values(slices.Concat(suffixed(numbered(254)), []string{"b.test/", "a.test/"}))), 1,
		},
		"above the limit in addition to the previous ones": {
			&matching{hosts: []string{"a.test", "b.test"}},
			matching{hosts: append(numbered(255), "c d")},
			slices.Sorted(slices.Values(suffixed(numbered(255)))), 1,
		},
		"every host of the own fleet, then shared without hosts": {&matching{}, matching{isShared: true}, nil, 1},
		"every host of the own fleet, then shared with an invalid one": {
			&matching{hosts: []string{"*", "a.test"}}, matching{hosts: []string{"b c"}, isShared: true}, []string{"a.test/"}, 1,
		},
		"every host of the shared fleet": {
			&matching{hosts: []string{"*"}, isShared: true}, matching{hosts: []string{"b c"}, isShared: true}, []string{"*/"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := resolve.Inputs{
				Services: kit.ResolveServices(kit.NewService("apps", "shop")), Options: resolve.Options{SharedFleet: "keda"},
			}
			if c.before != nil {
				inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{c.before.object()}
				inputs.Published, _ = resolve.Build(inputs)
			}
			inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{c.now.object()}
			for range 2 { // The result does not change by its publication.
				config, problems := resolve.Build(inputs)
				if diff := cmp.Diff(c.want, matchTexts(config)); diff != "" || len(problems) != c.problems {
					t.Errorf("problems %v, Matches (-want +got):\n%s", problems, diff)
				}
				inputs.Published = config
			}
		})
	}
}

// suffixed returns hosts with the path of a Match.
func suffixed(hosts []string) []string {
	var texts []string
	for _, host := range hosts {
		texts = append(texts, host+"/")
	}
	return texts
}
