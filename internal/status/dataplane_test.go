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
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
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

// record publishes a table and enters it into the ledger.
func record(ledger *status.Ledger, source *proxies, table string, weights map[string]uint32) map[ir.Key]status.Part {
	config := splitAt(weights)
	source.publish(table, config)
	parts := source.parts(config)
	ledger.Record(table, parts)
	return parts
}

// table is a proxy's answer about the table.
func (p *proxies) table(is status.Confirmation) {
	p.answer(peer, resourcev3.RouteType, translate.RouteConfigName, is)
}

// TestAcksOfOneTableByObject publishes three tables: in the first shop is at 20, in the second at 50, in the third it still is, but other has changed.
func TestAcksOfOneTableByObject(t *testing.T) {
	all, none := []status.Range{{0, 1}}, []status.Range(nil)
	other, shop := []status.Range{{0, 0}}, []status.Range{{1, 1}}
	tests := []struct {
		name   string
		answer func(*proxies)
		behind []status.Range
	}{
		{"the newest table", func(p *proxies) { p.table(status.Confirmation{Acked: "3", InSync: true}) }, none},
		{"an earlier table, while the one in which other changed is under way", func(p *proxies) { p.table(status.Confirmation{Acked: "2"}) }, other},
		{"the same, and nothing else was sent so far", func(p *proxies) { p.table(status.Confirmation{Acked: "2", InSync: true}) }, other},
		{"a table from before both changes", func(p *proxies) { p.table(status.Confirmation{Acked: "1"}) }, all},
		{"a table of which nothing is known", func(p *proxies) { p.table(status.Confirmation{Acked: "0", InSync: true}) }, all},
		{"no table", func(p *proxies) { p.table(status.Confirmation{}) }, all},
		{"a NACK takes everything back", func(p *proxies) { p.table(status.Confirmation{Nacked: "3", Message: "no"}) }, all},
		{"a table that leaves out a host that the proxy refuses", func(p *proxies) {
			p.table(status.Confirmation{Acked: "made for it", InSync: true, Unconfirmed: []string{"shop.test"}})
		}, shop},
		{"the same, and something newer is under way", func(p *proxies) {
			p.table(status.Confirmation{Acked: "made for it", Unconfirmed: []string{"shop.test"}})
		}, all},
		{"another version of a cluster", func(p *proxies) {
			p.answer(peer, resourcev3.ClusterType, "apps/shop/shop-canary", status.Confirmation{Acked: "old", InSync: true})
		}, shop},
		{"endpoints that are under way again", func(p *proxies) {
			p.answer(peer, resourcev3.EndpointType, "apps/shop/shop-stable", status.Confirmation{Acked: "e"})
		}, shop},
		{"no endpoints", func(p *proxies) {
			p.answer(peer, resourcev3.EndpointType, "apps/other/other-stable", status.Confirmation{})
		}, other},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ledger, source := status.NewLedger(), newProxies()
			record(ledger, source, "1", map[string]uint32{"shop": 20, "other": 20})
			record(ledger, source, "2", map[string]uint32{"shop": 50, "other": 20})
			record(ledger, source, "3", map[string]uint32{"shop": 50, "other": 80})
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

// TestATableThatComesBack goes from 20 to 50 and back, which gives the first table again, with the version that it had.
func TestATableThatComesBack(t *testing.T) {
	tests := []struct {
		name   string
		table  status.Confirmation
		behind []status.Range
	}{
		{"the proxy never got the one between", status.Confirmation{Acked: "1", InSync: true}, nil},
		{"the one between may be in force now", status.Confirmation{Acked: "1"}, []status.Range{{1, 1}}},
		{"the one between is in force", status.Confirmation{Acked: "2"}, []status.Range{{1, 1}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ledger, source := status.NewLedger(), newProxies()
			for table, weight := range []uint32{20, 50, 20} {
				record(ledger, source, []string{"1", "2", "1"}[table], map[string]uint32{"shop": weight, "other": 0})
			}
			source.confirm(peer)
			source.table(test.table)
			if diff := cmp.Diff(test.behind, source.look(ledger, "interceptor-0").Proxies[0].Behind); diff != "" {
				t.Errorf("behind (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTablesOfLongAgoAreForgotten(t *testing.T) {
	ledger, source := status.NewLedger(), newProxies()
	for i := range 2000 {
		record(ledger, source, netip.AddrFrom4([4]byte{0, 0, byte(i >> 8), byte(i)}).String(), map[string]uint32{"shop": 20, "other": uint32(i % 100)})
	}
	source.confirm(peer)
	for table, want := range map[string]int{"0.0.7.207": 0, "0.0.7.0": 1, "0.0.0.9": 2} { // 1999, 1792 and 9
		source.table(status.Confirmation{Acked: table})
		behind := 0
		for _, each := range source.look(ledger, "interceptor-0").Proxies[0].Behind {
			behind += 1 + each[1] - each[0]
		}
		if behind != want {
			t.Errorf("with table %s the proxy is behind on %d objects, want %d", table, behind, want)
		}
	}
}

func TestTheNewestStreamOfAProxyCounts(t *testing.T) {
	ledger, source := status.NewLedger(), newProxies()
	record(ledger, source, "1", map[string]uint32{"shop": 20})
	source.confirm("10.0.0.7:1")
	record(ledger, source, "2", map[string]uint32{"shop": 50})
	source.confirm("[::ffff:10.0.0.7]:2")
	source.confirm("not an address")
	got := source.look(ledger, "interceptor-0")
	want := []status.ProxyAcks{{Address: netip.MustParseAddr("10.0.0.7")}}
	if diff := cmp.Diff(want, got.Proxies, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("proxies (-want +got):\n%s", diff)
	}
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
		{"the table: what has changed since the proxy confirmed one is suspect", func(p *proxies) {
			p.table(status.Confirmation{Nacked: "2", Message: "bad route"})
		}, map[string]string{"apps/shop": "bad route"}},
		{"a host that is found to be the culprit", func(p *proxies) {
			p.table(status.Confirmation{Acked: "made for it", InSync: true, Unconfirmed: []string{"shop.test"}})
			p.refused = []status.Culprit{{TypeURL: resourcev3.RouteType, Name: translate.RouteConfigName, Host: "shop.test", Message: "bad host"}}
		}, map[string]string{"apps/shop": "bad host"}},
		{"endpoints that are found to be the culprit", func(p *proxies) {
			p.refused = []status.Culprit{{TypeURL: resourcev3.EndpointType, Name: "apps/shop/shop-stable"}}
		}, map[string]string{"apps/shop": "no reason given"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ledger, source := status.NewLedger(), newProxies()
			record(ledger, source, "1", map[string]uint32{"shop": 20, "other": 20})
			source.confirm(peer)
			source.look(ledger, "interceptor-0")
			record(ledger, source, "2", map[string]uint32{"shop": 50, "other": 20})
			source.table(status.Confirmation{Acked: "1"})
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
	parts := record(ledger, source, name+" has no say in the version", weights)
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
		name                     string
		change                   func(*ir.Config, *proxies)
		routes, whole, asDesired bool // whether the digests stay, and whether the weights are the desired ones
	}{
		{"nothing", func(*ir.Config, *proxies) {}, true, true, true},
		{"another object", func(c *ir.Config, _ *proxies) { c.Routes[0].Backends[0].Weight = 7 }, true, true, true},
		{"a weight", func(c *ir.Config, _ *proxies) { c.Routes[1].Backends[0].Weight = 7 }, false, false, true},
		{"a path", func(c *ir.Config, _ *proxies) { c.Routes[1].Match.PathPrefix = "/x" }, false, false, true},
		{"an endpoint", func(_ *ir.Config, p *proxies) { p.published[resourcev3.EndpointType]["apps/shop/shop-stable"] = "f" }, true, false, true},
		{"a protocol", func(_ *ir.Config, p *proxies) { p.published[resourcev3.ClusterType]["apps/shop/shop-stable"] = "d" }, true, false, true},
		{"a canary without endpoints", func(c *ir.Config, _ *proxies) { c.Services[canary] = ir.Endpoints{} }, false, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source := newProxies()
			source.publish("1", base())
			was := source.parts(base())[shopKey()]
			config := base()
			test.change(&config, source)
			is := source.parts(config)[shopKey()]
			if (is.Routes == was.Routes) != test.routes || (is.Digest == was.Digest) != test.whole || is.AsDesired != test.asDesired {
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
