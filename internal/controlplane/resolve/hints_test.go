package resolve_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// hintsOf parses zones and nodes as "a,b" or "a/node", nil for "".
func hintsOf(text string) *discoveryv1.EndpointHints {
	if text == "" {
		return nil
	}
	hints := new(discoveryv1.EndpointHints)
	zones, nodes, _ := strings.Cut(text, "/")
	for name := range strings.SplitSeq(zones, ",") {
		hints.ForZones = append(hints.ForZones, discoveryv1.ForZone{Name: name})
	}
	if nodes != "" {
		for name := range strings.SplitSeq(nodes, ",") {
			hints.ForNodes = append(hints.ForNodes, discoveryv1.ForNode{Name: name})
		}
	}
	return hints
}

// sliceOf returns a slice of Service shop. Each endpoint is "address hints", with a "-" in front if it is not ready and
// a "~" if it drains.
func sliceOf(endpoints ...string) *resolve.EndpointSlice {
	slice := kit.NewEndpointSlice("a", "shop")
	for _, text := range endpoints {
		address, hints, _ := strings.Cut(strings.TrimLeft(text, "-~"), " ")
		isReady, isDraining := !strings.ContainsAny(text, "-~"), strings.HasPrefix(text, "~")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Hints: hintsOf(hints), Zone: new("ignored"), NodeName: new("ignored"),
			Conditions: discoveryv1.EndpointConditions{
				Ready: &isReady, Serving: new(isReady || isDraining), Terminating: &isDraining,
			},
		})
	}
	return resolve.NewEndpointSlice(slice)
}

// TestHints compares the hints of endpoints with the rules of kube-proxy (pkg/proxy/topology.go).
func TestHints(t *testing.T) {
	t.Parallel()
	const one, two, three = "10.0.0.1", "10.0.0.2", "10.0.0.3"
	for name, test := range map[string]struct {
		slices [][]string
		want   string // the hints of the ready endpoints
	}{
		"none":                  {slices: [][]string{{one, two}}},
		"no ready endpoint":     {slices: [][]string{{"-" + one + " a", "-" + two + " b"}}},
		"zones":                 {slices: [][]string{{one + " a", two + " b"}}, want: "a/ b/"},
		"in the order of Ready": {slices: [][]string{{two + " b", three + " a", one + " c"}}, want: "c/ b/ a/"},
		"two slices":            {slices: [][]string{{two + " b"}, {one + " a"}}, want: "a/ b/"},
		"several zones, in any order": {
			slices: [][]string{{one + " b,a,b", two + " c"}}, want: "a,b/ c/",
		},
		"of some endpoints":             {slices: [][]string{{one + " a", two}}},
		"of all ready endpoints":        {slices: [][]string{{one + " a", two + " b", "-" + three}}, want: "a/ b/"},
		"draining endpoints have none":  {slices: [][]string{{one + " a", two + " b", "~" + three + " a"}}, want: "a/ b/"},
		"the same zone":                 {slices: [][]string{{one + " a", two + " a"}}},
		"one endpoint":                  {slices: [][]string{{one + " a/n"}}},
		"a list without names":          {slices: [][]string{{one + " ,", two + " a"}}},
		"nodes":                         {slices: [][]string{{one + " a/n1", two + " b/n2"}}, want: "a/n1 b/n2"},
		"nodes of some endpoints":       {slices: [][]string{{one + " a/n1", two + " b"}}, want: "a/ b/"},
		"nodes of one zone":             {slices: [][]string{{one + " a/n1", two + " a/n2"}}, want: "/n1 /n2"},
		"zones on one node":             {slices: [][]string{{one + " a/n1", two + " b/n1"}}, want: "a/ b/"},
		"two slices that differ":        {slices: [][]string{{one + " a", two + " b"}, {one + " c"}}, want: "c/ b/"},
		"two slices, one without hints": {slices: [][]string{{one, two + " b"}, {one + " c"}}, want: "c/ b/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{shopOf("a", 1)}, Services: servicesOf("a"),
			}
			for _, endpoints := range test.slices {
				inputs.EndpointSlices = append(inputs.EndpointSlices, sliceOf(endpoints...))
			}
			for range 2 {
				config, _ := resolve.Build(inputs)
				endpoints := config.Services[model.ServicePort{Service: model.Key{Namespace: "a", Name: "shop"}, Port: 80}]
				var got []string
				for _, hint := range endpoints.Hints {
					got = append(got, hint.Zones+"/"+hint.Nodes)
				}
				if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
					t.Errorf("hints of %v (-want +got):\n%s", endpoints.Ready, diff)
				}
				slices.Reverse(inputs.EndpointSlices)
			}
		})
	}
}

// TestHintsAreChanges requires that a change of hints or of the zone of a proxy is a change of the slice, and that of
// the zone of another Pod is not.
func TestHintsAreChanges(t *testing.T) {
	t.Parallel()
	of := func(service, zone, hint string) *resolve.EndpointSlice {
		slice := kit.NewEndpointSlice("a", service, "10.0.0.1")
		slice.Endpoints[0].Zone, slice.Endpoints[0].Hints = &zone, hintsOf(hint)
		return resolve.NewEndpointSlice(slice)
	}
	for name, test := range map[string]struct {
		before, after *resolve.EndpointSlice
		isSame        bool
	}{
		"nothing":          {of("shop", "a", "a"), of("shop", "a", "a"), true},
		"a hint":           {of("shop", "a", "a"), of("shop", "a", "b"), false},
		"no hint":          {of("shop", "a", "a"), of("shop", "a", ""), false},
		"the zone":         {of("shop", "a", "a"), of("shop", "b", "a"), true},
		"a proxy's zone":   {of(resolve.ProxyService, "a", ""), of(resolve.ProxyService, "b", ""), false},
		"a hint for it":    {of(resolve.ProxyService, "a", ""), of(resolve.ProxyService, "a", "a"), true},
		"no zone any more": {of(resolve.ProxyService, "a", ""), of(resolve.ProxyService, "", ""), false},
	} {
		if got := test.before.Equal(test.after); got != test.isSame {
			t.Errorf("%s: Equal returns %t", name, got)
		}
	}
}

// TestHintsChangeHosts requires that the hosts of an object are translated again when its endpoints begin and cease to
// have hints, but not when the hints change.
func TestHintsChangeHosts(t *testing.T) {
	t.Parallel()
	object, service := shopOf("a", 1), servicesOf("a")[0]
	resolver := resolve.NewResolver(resolve.Options{}, nil)
	resolver.Update(resolve.Change{
		ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{{Namespace: "a", Name: "shop"}: object},
		Services:      map[model.Key]*resolve.Service{service.Key: service},
		EndpointSlices: map[model.Key]*resolve.EndpointSlice{
			{Namespace: "a", Name: "shop-1"}: sliceOf("10.0.0.1", "10.0.0.2"),
		},
	})
	for _, step := range []struct {
		endpoints                  []string
		changesObject, changesHost bool
	}{
		{[]string{"10.0.0.1 a", "10.0.0.2 b"}, true, true},
		{[]string{"10.0.0.1 a", "10.0.0.2 c"}, true, false},
		{[]string{"10.0.0.1 a", "10.0.0.2 c"}, false, false},
		{[]string{"10.0.0.1 a", "10.0.0.2"}, true, true},
	} {
		update := resolver.Update(resolve.Change{EndpointSlices: map[model.Key]*resolve.EndpointSlice{
			{Namespace: "a", Name: "shop-1"}: sliceOf(step.endpoints...),
		}}).Updates["a"]
		if (len(update.Objects) == 1) != step.changesObject || (len(update.Hosts) == 1) != step.changesHost {
			t.Errorf("after %v: %d objects and %d hosts change", step.endpoints, len(update.Objects), len(update.Hosts))
		}
	}
	if at := netip.MustParseAddrPort("10.0.0.1:8080"); (model.Endpoints{
		Ready: []netip.AddrPort{at}, Hints: []model.Hint{{Zones: "a"}},
	}).Equal(model.Endpoints{Ready: []netip.AddrPort{at}}) {
		t.Error("Endpoints with and without hints are equal")
	}
}
