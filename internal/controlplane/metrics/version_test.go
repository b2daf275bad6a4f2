package metrics

import (
	"net/netip"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestVersionChangesWithAttribution requires that streams look up the objects of their clusters again only after a
// change that matters to that. Most changes of an object, such as one of its status, do not.
func TestVersionChangesWithAttribution(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := model.Key{Namespace: "apps", Name: "shop"}
	object := func(change func(*Object)) Object {
		desired := Object{Fleet: "apps", Services: []string{"stable"}, Spec: Spec{
			Metric: RequestRate, Target: 5, Window: time.Minute, Granularity: time.Second, ExternalKey: "edge",
			ExternalSources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}}
		change(&desired)
		return desired
	}
	for name, c := range map[string]struct {
		change  func(*Object)
		matters bool
	}{
		"nothing":         {func(*Object) {}, false},
		"the target":      {func(o *Object) { o.Spec.Target = 7 }, false},
		"the backends":    {func(o *Object) { o.Services = []string{"stable", "canary"} }, false},
		"an error":        {func(o *Object) { o.SpecError = "invalid" }, false},
		"the fleet":       {func(o *Object) { o.Fleet = "shared" }, true},
		"the window":      {func(o *Object) { o.Spec.Window = time.Second }, true},
		"the key":         {func(o *Object) { o.Spec.ExternalKey = "other" }, true},
		"its sources":     {func(o *Object) { o.Spec.ExternalSources = nil }, true},
		"another address": {func(o *Object) { o.Spec.ExternalSources[0] = netip.MustParsePrefix("198.51.100.0/24") }, true},
	} {
		meter := NewMeter(epoch)
		meter.SetObject(epoch, key, object(func(*Object) {}))
		before := meter.version
		meter.SetObject(epoch, key, object(c.change))
		if changed := meter.version != before; changed != c.matters {
			t.Errorf("%s: the version changed: %t, want %t", name, changed, c.matters)
		}
		if got := meter.objects[key].Spec.Target; got != object(c.change).Spec.Target {
			t.Errorf("%s: the target is %d", name, got)
		}
	}
	meter := NewMeter(epoch)
	if meter.SetObject(epoch, key, object(func(*Object) {})); meter.version == 0 {
		t.Error("a new object does not change the version")
	}
}
