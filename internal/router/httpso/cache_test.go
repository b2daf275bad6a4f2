package httpso

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

func TestTheCacheNeverGoesBack(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	at := func(version string) *object { return &object{name: name, resourceVersion: version} }
	tests := map[string]struct {
		happens func(*cache)
		want    string // resource version; empty means gone
	}{
		"a newer state":                     {func(c *cache) { c.put(at("11")) }, "11"},
		"an event from before an own write": {func(c *cache) { c.put(at("9")) }, "10"},
		"a later version with fewer digits": {func(c *cache) { c.put(at("100")); c.put(at("99")) }, "100"},
		"versions that are no numbers":      {func(c *cache) { c.put(at("x")) }, "x"},
		"gone":                              {func(c *cache) { c.remove(name, "11") }, ""},
		"its predecessor gone":              {func(c *cache) { c.remove(name, "9") }, "10"},
		"not in a list":                     {func(c *cache) { c.replace(nil, "11") }, ""},
		"not in a list from before it":      {func(c *cache) { c.replace(nil, "9") }, "10"},
		"older in a list":                   {func(c *cache) { c.replace([]*object{at("8")}, "11") }, "10"},
		"newer in a list":                   {func(c *cache) { c.replace([]*object{at("11")}, "11") }, "11"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c := newCache()
			c.put(at("10"))
			changed := c.changed(name)
			test.happens(c)
			got := ""
			if known, _ := c.get(name); known != nil {
				got = known.resourceVersion
			}
			if got != test.want {
				t.Errorf("version %q is known, want %q", got, test.want)
			}
			select {
			case <-changed:
				if test.want == "10" {
					t.Error("told of a change where there was none")
				}
			default:
				if test.want != "10" {
					t.Error("the change was not told")
				}
			}
		})
	}
}

// TestAReportOfBeforeTheLastWriteIsNotBelieved plays a weight that is left and set again: the first report about it must not pass for one about the second time.
func TestAReportOfBeforeTheLastWriteIsNotBelieved(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	state := func(version, text, reportedAt string) *object {
		return &object{name: name, resourceVersion: version, text: text, present: true, report: &httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(text), Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1}, Effective: true, ResourceVersion: reportedAt,
		}}
	}
	tests := map[string]struct {
		states []*object
		after  time.Duration
		want   bool
	}{
		"nothing is known of before":                    {states: []*object{state("10", "a", "3")}, want: true},
		"the text is what it was":                       {states: []*object{state("10", "a", "3"), state("11", "a", "3")}, want: true},
		"set, left and set again":                       {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "3")}},
		"and reported again":                            {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "3"), state("13", "a", "12")}, want: true},
		"reported of the time between":                  {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "11")}},
		"an interceptor that is too old to say":         {states: []*object{state("10", "a", ""), state("11", "b", ""), state("12", "a", "")}, want: true},
		"an interceptor that has not seen it for long":  {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "3")}, after: 6 * time.Second, want: true},
		"an event from before comes after the last one": {states: []*object{state("10", "a", "3"), state("12", "a", "3"), state("11", "b", "3")}, want: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCache()
				for _, each := range test.states {
					c.put(each)
				}
				time.Sleep(test.after) // The clock is synctest's.
				known, _ := c.get(name)
				if got := takenByAll(known); got != test.want {
					t.Errorf("taken by all: %v, want %v", got, test.want)
				}
			})
		})
	}
}
