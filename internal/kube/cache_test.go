package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// named is a State with a name and a version.
type named struct {
	name    types.NamespacedName
	version string
}

func (n named) Name() types.NamespacedName { return n.name }

func (n named) Version() string { return n.version }

func TestCacheKeepsNewestVersion(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	at := func(version string) named { return named{name: name, version: version} }
	tests := map[string]struct {
		happens func(*Cache[named])
		want    string // resource version; empty means gone
	}{
		"a newer state":                     {func(c *Cache[named]) { c.Put(at("11")) }, "11"},
		"an event from before an own write": {func(c *Cache[named]) { c.Put(at("9")) }, "10"},
		"a later version with fewer digits": {func(c *Cache[named]) { c.Put(at("100")); c.Put(at("99")) }, "100"},
		"versions that are no numbers":      {func(c *Cache[named]) { c.Put(at("x")) }, "x"},
		"gone":                              {func(c *Cache[named]) { c.remove(name, "11") }, ""},
		"its predecessor gone":              {func(c *Cache[named]) { c.remove(name, "9") }, "10"},
		"not in a list":                     {func(c *Cache[named]) { c.replace(nil, "11") }, ""},
		"not in a list from before it":      {func(c *Cache[named]) { c.replace(nil, "9") }, "10"},
		"older in a list":                   {func(c *Cache[named]) { c.replace([]named{at("8")}, "11") }, "10"},
		"newer in a list":                   {func(c *Cache[named]) { c.replace([]named{at("11")}, "11") }, "11"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c := NewCache[named](nil)
			c.Put(at("10"))
			changed := c.Changed(name)
			test.happens(c)
			known, _, _ := c.Get(name)
			if known.version != test.want {
				t.Errorf("version %q is known, want %q", known.version, test.want)
			}
			select {
			case <-changed:
				if test.want == "10" {
					t.Error("notified without a change")
				}
			default:
				if test.want != "10" {
					t.Error("not notified of the change")
				}
			}
		})
	}
}
