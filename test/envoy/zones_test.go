package envoy_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unique"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// zones are proxies of one fleet by their zones, each with an address and a node of its own.
type zones map[string]*served

// startZones starts an xDS server and a proxy in each of the zones.
func startZones(t *testing.T, resources translate.Resources, names ...string) zones {
	t.Helper()
	envoyproc.Binary(t)
	server := xds.NewServer(xds.Options{Grace: xds.DefaultGrace})
	grpcServer, listener := grpcserver.New(grpcserver.Options{}), listen(t)
	server.Register(grpcServer)
	serveGRPC(t, grpcServer, listener)
	slice, z := kit.NewEndpointSlice(namespace, resolve.ProxyService), zones{}
	for _, zone := range names {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{loopback.Address().String()}, Zone: &zone, NodeName: new("node-" + zone),
		})
	}
	controlplane.Publisher{Server: server}.Assign(resolve.Inputs{EndpointSlices: kit.ResolveEndpointSlices(slice)}.Proxies())
	for i, zone := range names {
		z[zone] = &served{proxy: &proxy{}, server: server}
		z[zone].publish(t, resources)
		z[zone].run(t, "DELTA_GRPC", listener.Addr().String(), [2]string{
			"connect_timeout: 2s", "connect_timeout: 2s\n      upstream_bind_config: {source_address: {address: " +
				slice.Endpoints[i].Addresses[0] + ", port_value: 0}}",
		})
	}
	return z
}

// apply publishes resources and waits until every proxy has acknowledged them.
func (z zones) apply(t *testing.T, resources translate.Resources) {
	t.Helper()
	first := slices.Collect(maps.Values(z))[0]
	first.publish(t, resources)
	await.True(t, "every proxy has the resources", func() bool {
		versions, complete := first.server.Versions(), 0
		first.server.Poll(func(state xds.StreamState) {
			hasAll := true
			for _, typeURL := range []string{
				resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ScopedRouteType,
			} {
				for name := range resources[typeURL] {
					hasAll = hasAll && state.Resource(typeURL, name).Acked == versions(namespace, typeURL, name)
				}
			}
			if hasAll {
				complete++
			}
		})
		return complete == len(z)
	})
}

// byZone and byNode return the hints of trafficDistribution PreferSameZone and PreferSameNode for a Pod in a zone.
func byZone(zone string) model.Hint { return model.Hint{Zones: zone} }
func byNode(zone string) model.Hint { return model.Hint{Zones: zone, Nodes: "node-" + zone} }

// topologyOf returns the topology of an endpoint with a hint.
func topologyOf(hint model.Hint) unique.Handle[resolve.Topology] {
	return unique.Make(resolve.Topology{Hint: hint})
}

// inZones returns the inputs of an object whose Pods have hints. The first letter of a Pod's name is its zone.
func inZones(t *testing.T, pods []*backend, hintOf func(zone string) model.Hint) resolve.Inputs {
	t.Helper()
	inputs := newInputs(t, pods, kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	inputs.Services = kit.ResolveServices(kit.NewService(namespace, "shop"))
	for i, slice := range inputs.EndpointSlices {
		slice.Key.Name, slice.Service.Name = fmt.Sprint("shop-", i), "shop"
		slice.Endpoints[0].Topology = topologyOf(hintOf(pods[i].name[:1]))
	}
	return inputs
}

// TestProxiesPreferTheirZone has a proxy in each of two zones, under load. Each sends all requests to the Pods of its
// own zone or node, to those of the other one while there are no others, and to all if a Pod has no hint or hints are
// not applied. No request fails meanwhile.
func TestProxiesPreferTheirZone(t *testing.T) {
	t.Parallel()
	for name, hintOf := range map[string]func(string) model.Hint{"zone": byZone, "node": byNode} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := []*backend{startBackend(t, "a"), startBackend(t, "a"), startBackend(t, "b"), startBackend(t, "b")}
			inputs, options := inZones(t, pods, hintOf), translate.DefaultOptions()
			z := startZones(t, translated(t, inputs, options), "a", "b")
			z.apply(t, translated(t, inputs, options))
			loads := map[string]*traffic.Traffic{}
			for zone, s := range z {
				loads[zone] = traffic.Start(t, s.address, "shop.example.com", rate, "a", "b")
			}
			expect := func(inputs resolve.Inputs, options translate.Options, ofA map[string]float64) {
				t.Helper()
				z.apply(t, translated(t, inputs, options))
				for zone, share := range ofA {
					loads[zone].CheckShare("a", share)
				}
			}
			own := map[string]float64{"a": 1, "b": 0}
			expect(inputs, options, own)
			without := inputs
			without.EndpointSlices = inputs.EndpointSlices[2:]
			expect(without, options, map[string]float64{"a": 0, "b": 0})
			expect(inputs, options, own)
			ofSome := inZones(t, pods, hintOf)
			ofSome.EndpointSlices[3].Endpoints[0].Topology = unique.Handle[resolve.Topology]{}
			expect(ofSome, options, map[string]float64{"a": 0.5, "b": 0.5})
			expect(inputs, options, own)
			options.TopologyHints = false
			expect(inputs, options, map[string]float64{"a": 0.5, "b": 0.5})
			for _, load := range loads {
				load.Stop()
			}
		})
	}
}

// TestWeightsDoNotDependOnZones has a canary at 20 % without a Pod in one of two zones with a proxy. Both proxies send it
// 20 %, and within each Service they prefer their own zone, where it has a Pod.
func TestWeightsDoNotDependOnZones(t *testing.T) {
	t.Parallel()
	pods := []*backend{
		startBackend(t, "a"), startBackend(t, "b"), startBackend(t, "b-canary"), startBackend(t, "c-canary"),
	}
	inputs, options := inZones(t, pods, byZone), translate.DefaultOptions()
	for _, slice := range inputs.EndpointSlices[2:] {
		slice.Service.Name = "canary"
	}
	inputs.Services = append(inputs.Services, kit.ResolveServices(kit.NewService(namespace, "canary"))...)
	inputs.ScaledObjects[0] = kit.WithSplit(inputs.ScaledObjects[0],
		split.Backend{Service: "shop", Weight: 80}, split.Backend{Service: "canary", Weight: 20})
	resources := translated(t, inputs, options)
	z := startZones(t, resources, "a", "b")
	z.apply(t, resources)
	for zone, shares := range map[string]map[string]float64{
		"a": {"a": 0.8, "b": 0, "b-canary": 0.1, "c-canary": 0.1},
		"b": {"a": 0, "b": 0.8, "b-canary": 0.2, "c-canary": 0},
	} {
		load := traffic.Start(t, z[zone].address, "shop.example.com", rate, "a", "b", "b-canary", "c-canary")
		for pod, share := range shares {
			load.CheckShare(pod, share)
		}
		load.Stop()
	}
}

// TestDrainingInAZone removes one of two Pods of a zone in two steps while it has a request. The request ends, and new
// ones stay in the zone although half of its Pods are not ready.
func TestDrainingInAZone(t *testing.T) {
	t.Parallel()
	pods := []*backend{startBackend(t, "a-0"), startBackend(t, "a-1"), startBackend(t, "b-0")}
	draining, remaining := pods[0], pods[1]
	inputs, options := inZones(t, pods, byZone), translate.DefaultOptions()
	z := startZones(t, translated(t, inputs, options), "a")
	z.apply(t, translated(t, inputs, options))
	ctx, answers := await.Context(t), make(chan answer, 100)
	var sending sync.WaitGroup
	t.Cleanup(sending.Wait)
	for isHeld := false; !isHeld; {
		sending.Go(func() {
			got, err := z["a"].get(ctx, "http://shop.example.com/held", nil)
			if err != nil || got.status != http.StatusOK {
				t.Errorf("a request in flight: %d, %v", got.status, err)
			}
			answers <- got
		})
		select {
		case <-remaining.arrived:
		case <-draining.arrived:
			isHeld = true
		case <-ctx.Done():
			t.Fatal("a request reached no Pod of the zone")
		}
	}
	endpoint := &inputs.EndpointSlices[0].Endpoints[0]
	endpoint.IsReady, endpoint.IsServing, endpoint.HasServing, endpoint.IsTerminating = false, true, true, true
	for range 2 {
		z.apply(t, translated(t, inputs, options))
		await.True(t, "the workers have the endpoints", func() bool { return z.servedBy(t, 20)["a-1"] == 20 })
		if got := z.servedBy(t, 100); got["a-1"] != 100 {
			t.Errorf("new requests were answered by %v", got)
		}
		inputs.EndpointSlices = inputs.EndpointSlices[1:]
	}
	close(draining.release)
	close(remaining.release)
	sending.Wait()
	close(answers)
	served := map[string]int{}
	for got := range answers {
		served[got.seen.Backend]++
	}
	if served["a-0"] != 1 {
		t.Errorf("requests in flight were answered by %v, want one by a-0", served)
	}
}

// servedBy sends requests to the proxy of zone a, and returns the number of answers of each backend.
func (z zones) servedBy(t *testing.T, requests int) map[string]int {
	t.Helper()
	served := map[string]int{}
	for range requests {
		served[z["a"].mustGet(t, "http://shop.example.com/", nil).seen.Backend]++
	}
	return served
}

// hostStats returns the number of endpoints of the object shop for which a line of the admin interface ends with suffix.
func (s *served) hostStats(t *testing.T, suffix string) int {
	t.Helper()
	text, err := s.Admin(t.Context(), "/clusters")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apps/shop/shop::") && strings.HasSuffix(strings.TrimSpace(line), suffix) {
			count++
		}
	}
	return count
}

// withRefusing adds Pods of zone a that refuse connections.
func withRefusing(inputs resolve.Inputs, count int) resolve.Inputs {
	inputs.EndpointSlices = slices.Clip(inputs.EndpointSlices)
	for range count {
		withEndpoint(&inputs, "shop", refusing()).Topology = topologyOf(byZone("a"))
	}
	return inputs
}

// TestEjectedPodsOfAZone has four Pods in each zone, of which some refuse connections and are ejected. Envoy's
// overprovisioning factor of 1.4 decides what leaves the zone: nothing with one of four, 30 % with two.
func TestEjectedPodsOfAZone(t *testing.T) {
	t.Parallel()
	for count, share := range map[int]float64{1: 1, 2: 0.7} {
		t.Run(fmt.Sprintf("%d of 4", count), func(t *testing.T) {
			t.Parallel()
			var pods []*backend
			for i := range 8 - count {
				pods = append(pods, startBackend(t, map[bool]string{true: "b", false: "a"}[i < 4]))
			}
			inputs := withRefusing(inZones(t, pods, byZone), count)
			parsed := envoysettings.Parse(map[string]string{envoysettings.KeyCluster: "outlier_detection: " +
				"{base_ejection_time: 1h, max_ejection_time: 1h}"}) // so that it does not end meanwhile
			settings, conflicts := parsed.Settings()
			if len(parsed.Problems)+len(conflicts) > 0 {
				t.Fatal(parsed.Problems, conflicts)
			}
			inputs.EnvoySettings = resolve.SettingsByNamespace{namespace: settings}
			resources := translated(t, inputs, translate.DefaultOptions())
			z := startZones(t, resources, "a")
			z.apply(t, resources)
			await.True(t, "the ejections", func() bool {
				if got := z["a"].getMany(t, "http://shop.example.com/", 3); got[http.StatusOK] != 3 {
					t.Errorf("responses by status: %v", got)
				}
				return z["a"].hostStats(t, "/failed_outlier_check") == count
			})
			load := traffic.Start(t, z["a"].address, "shop.example.com", rate, "a", "b")
			load.CheckShare("a", share)
			load.Stop()
		})
	}
}

// TestRetryLeavesTheZone has a zone whose only Pod refuses connections: each request is retried in another zone.
func TestRetryLeavesTheZone(t *testing.T) {
	t.Parallel()
	inputs := withRefusing(inZones(t, []*backend{startBackend(t, "b")}, byZone), 1)
	resources := translated(t, inputs, translate.DefaultOptions())
	z := startZones(t, resources, "a")
	z.apply(t, resources)
	const requests = 4 // With the fifth, the Pod is ejected.
	if got := z.servedBy(t, requests); got["b"] != requests {
		t.Errorf("requests were answered by %v", got)
	}
	if tried := z["a"].hostStats(t, fmt.Sprintf("::cx_connect_fail::%d", requests)); tried != 1 {
		t.Error("the refusing Pod was not tried first, so the test proves nothing")
	}
}

// TestZoneOfAProxyBecomesKnown has a proxy whose EndpointSlice gets the zone after it has connected.
func TestZoneOfAProxyBecomesKnown(t *testing.T) {
	t.Parallel()
	pods := []*backend{startBackend(t, "a"), startBackend(t, "b")}
	resources := translated(t, inZones(t, pods, byZone), translate.DefaultOptions())
	s := serve(t, "GRPC", resources)
	s.await(t, resources)
	load := traffic.Start(t, s.address, "shop.example.com", rate, "a", "b")
	load.CheckShare("a", 0.5)
	slice := kit.NewEndpointSlice(namespace, resolve.ProxyService, "127.0.0.1")
	slice.Endpoints[0].Zone = new("b")
	controlplane.Publisher{Server: s.server}.Assign(resolve.Inputs{EndpointSlices: kit.ResolveEndpointSlices(slice)}.Proxies())
	await.True(t, "the priorities", func() bool {
		text, err := s.Admin(t.Context(), "/clusters")
		return err == nil && strings.Contains(string(text), "::priority::1")
	})
	load.CheckShare("a", 0)
	load.Stop()
}
