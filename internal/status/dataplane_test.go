package status_test

import (
	"net/netip"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// ready are endpoints that take requests.
func ready(addresses ...string) ir.Endpoints {
	var endpoints ir.Endpoints
	for _, address := range addresses {
		endpoints.Ready = append(endpoints.Ready, netip.AddrPortFrom(netip.MustParseAddr(address), 8080))
	}
	return endpoints
}

func shopKey() ir.Key  { return ir.Key{Namespace: "apps", Name: "shop"} }
func otherKey() ir.Key { return ir.Key{Namespace: "apps", Name: "other"} }

const peer = "10.0.0.7:40000"

// record publishes weights and enters them into the ledger.
func record(ledger *status.Ledger, source *proxies, weights map[string]uint32) map[ir.Key]status.Part {
	config := splitAt(weights)
	source.publish(config)
	parts := source.parts(config)
	ledger.Record(parts)
	return parts
}

// nack is the refusal of a scope as it is published.
func (p *proxies) nack(scope string) status.Confirmation {
	return status.Confirmation{Nacked: p.Version(resourcev3.ScopedRouteType, scope), Message: "bad scope"}
}

// TestAcksByObject has a proxy that has all of two objects, and then answers otherwise.
func TestAcksByObject(t *testing.T) {
	none, both := []status.Range(nil), []status.Range{{0, 1}}
	other, shop := []status.Range{{0, 0}}, []status.Range{{1, 1}}
	scope := resourcev3.ScopedRouteType
	tests := []struct {
		name   string
		answer func(*proxies)
		behind []status.Range
	}{
		{"everything", func(*proxies) {}, none},
		{"an earlier scope", func(p *proxies) { p.answer(peer, scope, "shop.test", status.Confirmation{Acked: "1", InSync: true}) }, shop},
		{"its scope, and another form of it is under way", func(p *proxies) {
			p.answer(peer, scope, "shop.test", status.Confirmation{Acked: p.published[scope]["shop.test"]})
		}, shop},
		{"no scope", func(p *proxies) { p.answer(peer, scope, "shop.test", status.Confirmation{}) }, shop},
		{"a NACK", func(p *proxies) { p.answer(peer, scope, "other.test", p.nack("other.test")) }, other},
		{"another version of a cluster", func(p *proxies) {
			p.answer(peer, resourcev3.ClusterType, "apps/shop/shop-canary", status.Confirmation{Acked: "old", InSync: true})
		}, shop},
		{"endpoints that are under way again", func(p *proxies) {
			p.answer(peer, resourcev3.EndpointType, "apps/shop/shop-stable", status.Confirmation{Acked: "e"})
		}, shop},
		{"no endpoints", func(p *proxies) {
			p.answer(peer, resourcev3.EndpointType, "apps/other/other-stable", status.Confirmation{})
		}, other},
		{"nothing", func(p *proxies) { p.streams[peer] = nil }, both},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ledger, source := status.NewLedger(), newProxies()
			record(ledger, source, map[string]uint32{"shop": 20, "other": 20})
			source.confirm(peer)
			test.answer(source)
			got := source.look(ledger, "interceptor-0")
			if len(got.Proxies) != 1 {
				t.Fatalf("%d proxies, want 1", len(got.Proxies))
			}
			if diff := cmp.Diff(test.behind, got.Proxies[0].Behind); diff != "" {
				t.Errorf("behind (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAWeightConcernsOneObject moves one of two objects: the proxy is behind on that one only.
func TestAWeightConcernsOneObject(t *testing.T) {
	ledger, source := status.NewLedger(), newProxies()
	for _, step := range []struct {
		shop   uint32
		behind []status.Range
	}{{20, nil}, {50, []status.Range{{1, 1}}}, {20, nil}} { // 20 is what it has
		record(ledger, source, map[string]uint32{"shop": step.shop, "other": 0})
		if len(source.streams) == 0 {
			source.confirm(peer)
		}
		if diff := cmp.Diff(step.behind, source.look(ledger, "interceptor-0").Proxies[0].Behind); diff != "" {
			t.Errorf("shop at %d: behind (-want +got):\n%s", step.shop, diff)
		}
	}
}

func TestTheNewestStreamOfAProxyCounts(t *testing.T) {
	ledger, source := status.NewLedger(), newProxies()
	record(ledger, source, map[string]uint32{"shop": 20})
	source.confirm("10.0.0.7:1")
	record(ledger, source, map[string]uint32{"shop": 50})
	source.confirm("[::ffff:10.0.0.7]:2")
	source.confirm("not an address")
	got := source.look(ledger, "interceptor-0")
	want := []status.ProxyAcks{{Address: netip.MustParseAddr("10.0.0.7")}}
	if diff := cmp.Diff(want, got.Proxies, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("proxies (-want +got):\n%s", diff)
	}
}

// culprit is a published resource that every proxy refuses.
func culprit(p *proxies, typeURL, name, message string) []status.Culprit {
	refused := status.PublishedResource{TypeURL: typeURL, Name: name, Version: p.published[typeURL][name]}
	return []status.Culprit{{Resource: refused, Message: message}}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*proxies)
		want   map[string]string
	}{
		{"none", func(*proxies) {}, map[string]string{}},
		{"a cluster in its present version", func(p *proxies) {
			p.answer(peer, resourcev3.ClusterType, "apps/shop/shop-canary", status.Confirmation{Nacked: "c", Message: "bad cluster"})
		}, map[string]string{"apps/shop": "bad cluster"}},
		{"a cluster in an old version", func(p *proxies) {
			p.answer(peer, resourcev3.ClusterType, "apps/shop/shop-canary", status.Confirmation{Nacked: "b", Message: "bad cluster"})
		}, map[string]string{}},
		{"a scope in its present version", func(p *proxies) {
			p.answer(peer, resourcev3.ScopedRouteType, "shop.test", p.nack("shop.test"))
		}, map[string]string{"apps/shop": "bad scope"}},
		{"a scope that is found to be the culprit", func(p *proxies) {
			p.refused = culprit(p, resourcev3.ScopedRouteType, "shop.test", "bad host")
		}, map[string]string{"apps/shop": "bad host"}},
		{"endpoints that are found to be the culprit", func(p *proxies) {
			p.refused = culprit(p, resourcev3.EndpointType, "apps/shop/shop-stable", "")
		}, map[string]string{"apps/shop": "no reason given"}},
		{"a culprit that is published in another version by now", func(p *proxies) {
			p.refused = culprit(p, resourcev3.ScopedRouteType, "shop.test", "bad host")
			p.refused[0].Resource.Version = "1"
		}, map[string]string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ledger, source := status.NewLedger(), newProxies()
			record(ledger, source, map[string]uint32{"shop": 20, "other": 20})
			source.confirm(peer)
			source.look(ledger, "interceptor-0")
			record(ledger, source, map[string]uint32{"shop": 50, "other": 20})
			test.answer(source)
			got := map[string]string{}
			for _, refusal := range source.look(ledger, "interceptor-0").Refusals {
				got[refusal.Object] = refusal.Message
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}

// replicaWith returns what a replica tells to which the given peers are connected, each of which confirmed everything.
func replicaWith(name string, weights map[string]uint32, peers ...string) (status.Acks, map[ir.Key]status.Part) {
	ledger, source := status.NewLedger(), newProxies()
	parts := record(ledger, source, weights)
	for _, each := range peers {
		source.confirm(each)
	}
	return source.look(ledger, name), parts
}

func TestMerge(t *testing.T) {
	now, before := map[string]uint32{"shop": 50, "other": 0}, map[string]uint32{"shop": 20, "other": 0}
	first, parts := replicaWith("a", now, "10.0.0.1:1", "10.0.0.2:1")
	second, _ := replicaWith("b", now, "10.0.0.3:1")
	late, _ := replicaWith("c", before, "10.0.0.4:1", "10.0.0.1:1")
	fleet := []status.Proxy{
		{Namespace: "apps", Addresses: []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")}},
		{Namespace: "apps", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.3")}},
		{Namespace: "else", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}},
	}
	unconnected := status.Proxy{Namespace: "apps", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}
	lagging := status.Proxy{Namespace: "apps", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.4")}}
	tests := []struct {
		name        string
		fleet       status.Fleet
		replicas    []status.Acks
		shop, other httpv1alpha1.ProxyCounts
	}{
		{"nobody is there", status.Fleet{}, nil, httpv1alpha1.ProxyCounts{}, httpv1alpha1.ProxyCounts{}},
		{
			"the proxies of the namespace",
			status.Fleet{Proxies: fleet},
			[]status.Acks{first, second},
			httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2},
			httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2},
		},
		{
			"all proxies",
			status.Fleet{Proxies: fleet, Shared: true},
			[]status.Acks{first, second},
			httpv1alpha1.ProxyCounts{Ready: 3, Acked: 3},
			httpv1alpha1.ProxyCounts{Ready: 3, Acked: 3},
		},
		{
			"a replica does not answer",
			status.Fleet{Proxies: fleet},
			[]status.Acks{first},
			httpv1alpha1.ProxyCounts{Ready: 2, Acked: 1},
			httpv1alpha1.ProxyCounts{Ready: 2, Acked: 1},
		},
		{
			"a proxy is not connected",
			status.Fleet{Proxies: append(fleet[:2:2], unconnected)},
			[]status.Acks{first, second},
			httpv1alpha1.ProxyCounts{Ready: 3, Acked: 2},
			httpv1alpha1.ProxyCounts{Ready: 3, Acked: 2},
		},
		{
			"a replica has an older shop",
			status.Fleet{Proxies: []status.Proxy{lagging}},
			[]status.Acks{first, late},
			httpv1alpha1.ProxyCounts{Ready: 1},
			httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1},
		},
		{
			"a proxy is connected to two replicas, of which one has an older shop",
			status.Fleet{Proxies: fleet[:1]},
			[]status.Acks{first, late},
			httpv1alpha1.ProxyCounts{Ready: 1},
			httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := status.Merge(test.fleet, parts, test.replicas)
			want := map[ir.Key]status.Taken{shopKey(): {Proxies: test.shop, AsDesired: true}, otherKey(): {Proxies: test.other, AsDesired: true}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyProxies(t *testing.T) {
	starting, ending := proxyPod("apps", "starting", "10.0.0.2"), proxyPod("apps", "ending", "10.0.0.3")
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	ending.DeletionTimestamp = &metav1.Time{Time: noon()}
	unknown := proxyPod("apps", "unknown", "10.0.0.4")
	unknown.Status.Conditions = nil
	got := status.ReadyProxies([]*corev1.Pod{starting, proxyPod("apps", "fine", "10.0.0.1", "fd00::1"), ending, unknown})
	want := []status.Proxy{{Namespace: "apps", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("proxies (-want +got):\n%s", diff)
	}
}

func TestPartsTellObjectsApart(t *testing.T) {
	base := func() ir.Config { return splitAt(map[string]uint32{"shop": 20, "other": 0}) }
	canary := ir.ServicePort{Service: ir.Key{Namespace: "apps", Name: "shop-canary"}, Port: 80}
	tests := []struct {
		name            string
		change          func(*ir.Config, *proxies)
		same, asDesired bool // whether the digest stays, and whether the weights are the desired ones
	}{
		{"nothing", func(*ir.Config, *proxies) {}, true, true},
		{"another object", func(c *ir.Config, _ *proxies) { c.Routes[0].Backends[0].Weight = 7 }, true, true},
		{"a weight", func(c *ir.Config, _ *proxies) { c.Routes[1].Backends[0].Weight = 7 }, false, true},
		{"a host", func(c *ir.Config, _ *proxies) { c.Routes[1].Match.Host = "*.test" }, false, true},
		{"a neighbour in the same scope", func(c *ir.Config, _ *proxies) { c.Routes[0].Match.Host = "shop.test" }, false, true},
		{"an endpoint", func(_ *ir.Config, p *proxies) { p.published[resourcev3.EndpointType]["apps/shop/shop-stable"] = "f" }, false, true},
		{"a protocol", func(_ *ir.Config, p *proxies) { p.published[resourcev3.ClusterType]["apps/shop/shop-stable"] = "d" }, false, true},
		{"a canary without endpoints", func(c *ir.Config, _ *proxies) { c.Services[canary] = ir.Endpoints{} }, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source := newProxies()
			source.publish(base())
			was := source.parts(base())[shopKey()]
			config := base()
			test.change(&config, source)
			source.publish(config)
			test.change(&config, source)
			is := source.parts(config)[shopKey()]
			if (is.Digest == was.Digest) != test.same || is.AsDesired != test.asDesired {
				t.Errorf("before %+v\nafter  %+v", was, is)
			}
		})
	}
}

func TestARefusalIsACondition(t *testing.T) {
	got := conditions(t, status.Compute(shop(), status.Observation{Served: true}, status.Taken{Refusal: "proxy 10.0.0.7: bad route"}, "interceptor-0", noon()))["Ready"]
	want := condition{
		"False", "RefusedByProxy", "A proxy refused the route and keeps what it had, which is a bug in the interceptor: proxy 10.0.0.7: bad route",
		got.since,
	}
	if got != want {
		t.Errorf("condition %+v, want %+v", got, want)
	}
}
