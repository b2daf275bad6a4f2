package httpso

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
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
