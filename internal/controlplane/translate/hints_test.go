package translate_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// addresses returns the addresses 10.0.0.<first> and following.
func addresses(first, count int) []netip.AddrPort {
	var all []netip.AddrPort
	for i := range count {
		all = append(all, netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:80", first+i)))
	}
	return all
}

// groupsOf returns the groups of endpoints as "zones/nodes: address..." with a "~" in front of draining ones.
func groupsOf(assignment *endpointv3.ClusterLoadAssignment) []string {
	var groups []string
	for _, group := range assignment.GetEndpoints() {
		name := "-"
		if locality := group.GetLocality(); locality != nil {
			name = locality.GetZone() + "/" + locality.GetSubZone()
		}
		words := []string{fmt.Sprintf("%s %d:", name, group.GetPriority())}
		for _, endpoint := range group.GetLbEndpoints() {
			address := endpoint.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
			if endpoint.GetHealthStatus().String() == "DRAINING" {
				address = "~" + address
			}
			words = append(words, address)
		}
		groups = append(groups, strings.Join(words, " "))
	}
	return groups
}

// hintedCanary returns canary with hints of the stable Service.
func hintedCanary(hints ...model.Hint) model.Config {
	config := canary(80, 20)
	config.Services[config.Routes[0].Backends[0].ServicePort()] = model.Endpoints{
		Ready: addresses(1, len(hints)), Draining: addresses(101, 1), Hints: hints,
	}
	return config
}

// TestGroupsOfHints requires a group for each hint and one for draining endpoints. Hints that are not applied change no
// byte of any resource.
func TestGroupsOfHints(t *testing.T) {
	t.Parallel()
	zones := []model.Hint{{Zones: "b"}, {Zones: "a"}, {Zones: "b"}, {Zones: "a,c"}}
	withAffinity := hintedCanary(zones...)
	withAffinity.Routes[0].Affinity = affinity.Key{Header: "x-user"}
	off := translate.DefaultOptions()
	off.TopologyHints = false
	for name, test := range map[string]struct {
		config  model.Config
		options translate.Options
		want    []string
	}{
		"zones": {
			config: hintedCanary(zones...), options: translate.DefaultOptions(),
			want: []string{"a/ 0: 10.0.0.2", "a,c/ 0: 10.0.0.4", "b/ 0: 10.0.0.1 10.0.0.3", "- 0: ~10.0.0.101"},
		},
		"nodes": {
			config:  hintedCanary(model.Hint{Zones: "a", Nodes: "n2"}, model.Hint{Zones: "a", Nodes: "n1"}),
			options: translate.DefaultOptions(),
			want:    []string{"a/n1 0: 10.0.0.2", "a/n2 0: 10.0.0.1", "- 0: ~10.0.0.101"},
		},
		"session affinity": {config: withAffinity, options: translate.DefaultOptions()},
		"off":              {config: hintedCanary(zones...), options: off},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.options.Envoy(test.config)
			if err != nil {
				t.Fatal(err)
			}
			route := test.config.Routes[0]
			if test.want != nil {
				cluster := translate.ClusterName(route.Owner, route.Backends[0].Service)
				groups := groupsOf(as[*endpointv3.ClusterLoadAssignment](t, got[resourcev3.EndpointType][cluster]))
				if diff := cmp.Diff(test.want, groups); diff != "" {
					t.Errorf("groups (-want +got):\n%s", diff)
				}
				return
			}
			port := route.Backends[0].ServicePort()
			without := test.config.Services[port]
			without.Hints = nil
			test.config.Services[port] = without
			want, err := test.options.Envoy(test.config)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wire(t, want), wire(t, got)); diff != "" {
				t.Errorf("resources (-without hints +with hints):\n%s", diff)
			}
		})
	}
}

// TestRetriesOfHints requires that each retry of a host selects another priority if one of its destinations has hints.
func TestRetriesOfHints(t *testing.T) {
	t.Parallel()
	hints := []model.Hint{{Zones: "a"}, {Zones: "b"}}
	ofCanary := canary(80, 20)
	ofCanary.Services[ofCanary.Routes[0].Backends[1].ServicePort()] = model.Endpoints{Ready: addresses(1, 2), Hints: hints}
	for name, test := range map[string]struct {
		config model.Config
		want   bool
	}{
		"none": {canary(80, 20), false}, "of the stable Service": {hintedCanary(hints...), true},
		"of the canary": {ofCanary, true},
	} {
		scope := as[*routev3.ScopedRouteConfiguration](t,
			envoy(t, test.config)[resourcev3.ScopedRouteType]["shop.example.com"])
		policy := scope.GetRouteConfiguration().GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetRetryPolicy()
		if got := policy.GetRetryPriority() != nil; got != test.want {
			t.Errorf("%s: a retry selects another priority: %t", name, got)
		}
	}
}
