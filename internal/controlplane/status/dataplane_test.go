package status_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// ready returns ready endpoints.
func ready(addresses ...string) model.Endpoints {
	var endpoints model.Endpoints
	for _, address := range addresses {
		endpoints.Ready = append(endpoints.Ready, netip.AddrPortFrom(netip.MustParseAddr(address), 8080))
	}
	return endpoints
}

func shopKey() model.Key  { return model.Key{Namespace: "apps", Name: "shop"} }
func otherKey() model.Key { return model.Key{Namespace: "apps", Name: "other"} }

const peer = "10.0.0.7:40000"

// replica is one replica with its proxies.
type replica struct {
	*proxies

	tracker *status.AckTracker
	server  *peers.Server
	known   map[model.Key]status.Publication
}

func newReplica() *replica {
	return &replica{newProxies(), status.NewAckTracker(), peers.NewServer(nil, nil), nil}
}

// record publishes weights.
func (r *replica) record(weights map[string]uint32) {
	config := splitAt(weights)
	r.publish(config)
	changed := publications(config)
	r.known = maps.Clone(changed)
	for _, key := range []model.Key{shopKey(), otherKey()} {
		if _, isThere := changed[key]; !isThere {
			changed[key] = status.Publication{}
		}
	}
	r.tracker.Record(changed, r.Versions())
}

// sync applies the ACKs of the proxies.
func (r *replica) sync() { r.server.Apply(r.tracker.Changes(r.Poll())) }

// ackOf returns the ACK of a proxy about an object as it is published.
func (r *replica) ackOf(address string, key model.Key) (ack peers.Ack, connected bool) {
	r.server.Read(func(state *peers.State) {
		at := netip.MustParseAddr(address)
		ack, connected = state.Ack(at, r.known[key].Fleet, key, r.known[key].Digest)
	})
	return ack, connected
}

// unconfirmed returns the objects that the proxy peer has not confirmed, in order.
func (r *replica) unconfirmed() []string {
	var names []string
	for _, key := range slices.SortedFunc(maps.Keys(r.known), model.Key.Compare) {
		if ack, connected := r.ackOf("10.0.0.7", key); connected && !ack.Acked {
			names = append(names, key.Name)
		}
	}
	return names
}

// nack returns a NACK of a scope as it is published.
func (p *proxies) nack(scope string) status.ResourceAck {
	return status.ResourceAck{Nacked: p.published[resourcev3.ScopedRouteType][scope], Message: "bad scope"}
}

// TestAcksByObject changes an ACK of a proxy that has confirmed two objects.
func TestAcksByObject(t *testing.T) {
	scope := resourcev3.ScopedRouteType
	tests := []struct {
		name    string
		change  func(*replica)
		missing []string
	}{
		{"everything", func(*replica) {}, nil},
		{"an earlier scope", func(r *replica) {
			r.setAck(peer, scope, "shop.test", status.ResourceAck{Acked: "1"})
		}, []string{"shop"}},
		{
			"no scope, or its scope while another version is in flight",
			func(r *replica) { r.setAck(peer, scope, "shop.test", status.ResourceAck{}) },
			[]string{"shop"},
		},
		{"a NACK", func(r *replica) { r.setAck(peer, scope, "other.test", r.nack("other.test")) }, []string{"other"}},
		{"another version of a cluster", func(r *replica) {
			old := status.ResourceAck{Acked: "old"}
			r.setAck(peer, resourcev3.ClusterType, "apps/shop/shop-canary", old)
		}, []string{"shop"}},
		{"endpoints that are in flight again", func(r *replica) {
			r.setAck(peer, resourcev3.EndpointType, "apps/shop/shop-stable", status.ResourceAck{})
		}, []string{"shop"}},
		{"no endpoints", func(r *replica) {
			r.setAck(peer, resourcev3.EndpointType, "apps/other/other-stable", status.ResourceAck{})
		}, []string{"other"}},
		{"nothing", func(r *replica) { r.streams[peer] = nil }, []string{"other", "shop"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, when := range []string{"in the first comparison", "in a later one"} {
				r := newReplica()
				r.record(map[string]uint32{"shop": 20, "other": 20})
				r.confirm(peer)
				if when == "in a later one" {
					r.sync()
				}
				test.change(r)
				r.sync()
				if diff := cmp.Diff(test.missing, r.unconfirmed()); diff != "" {
					t.Errorf("%s: missing (-want +got):\n%s", when, diff)
				}
			}
		})
	}
}

// TestWeightChangeAffectsOneObject changes the weight of one of two objects. The proxy lacks only that object, and has
// it again when the weight is changed back.
func TestWeightChangeAffectsOneObject(t *testing.T) {
	r := newReplica()
	for _, step := range []struct {
		shop    uint32
		missing []string
	}{{20, nil}, {50, []string{"shop"}}, {20, nil}} {
		r.record(map[string]uint32{"shop": step.shop, "other": 0})
		if len(r.streams) == 0 {
			r.confirm(peer)
		}
		r.sync()
		if diff := cmp.Diff(step.missing, r.unconfirmed()); diff != "" {
			t.Errorf("shop at %d: missing (-want +got):\n%s", step.shop, diff)
		}
	}
}

// TestUnchangedStateHasNoChanges compares the same state twice.
func TestUnchangedStateHasNoChanges(t *testing.T) {
	r := newReplica()
	r.record(map[string]uint32{"shop": 20, "other": 20})
	r.confirm(peer)
	if delta := r.server.Apply(r.tracker.Changes(r.Poll())); len(delta.Objects) != 2 || len(delta.Proxies) != 1 {
		t.Errorf("the first comparison returns %+v", delta)
	}
	r.record(map[string]uint32{"shop": 20, "other": 20})
	if delta := r.server.Apply(r.tracker.Changes(r.Poll())); !delta.IsEmpty() {
		t.Errorf("nothing has changed, but the changes are %+v", delta)
	}
	r.record(map[string]uint32{"shop": 50, "other": 20})
	delta := r.server.Apply(r.tracker.Changes(r.Poll()))
	if len(delta.Objects) != 1 || len(delta.Proxies) != 1 ||
		len(delta.Proxies[netip.MustParseAddr("10.0.0.7")].Acks) != 1 {
		t.Errorf("one object has changed, but the changes are %+v", delta)
	}
}

func TestNewestStreamCounts(t *testing.T) {
	r := newReplica()
	r.record(map[string]uint32{"shop": 20})
	r.confirm("10.0.0.7:1")
	r.record(map[string]uint32{"shop": 50})
	r.confirm("[::ffff:10.0.0.7]:2")
	r.confirm("not an address")
	r.sync()
	if got := r.unconfirmed(); got != nil {
		t.Errorf("the newest stream misses %q", got)
	}
	delete(r.streams, "[::ffff:10.0.0.7]:2")
	r.sync()
	if diff := cmp.Diff([]string{"shop"}, r.unconfirmed()); diff != "" {
		t.Errorf("the remaining stream misses (-want +got):\n%s", diff)
	}
	delete(r.streams, "10.0.0.7:1")
	r.sync()
	if _, connected := r.ackOf("10.0.0.7", shopKey()); connected {
		t.Error("a proxy without a stream is connected")
	}
}

func TestRejections(t *testing.T) {
	cluster := func(version string) func(*replica) {
		return func(r *replica) {
			r.setAck(peer, resourcev3.ClusterType, "apps/shop/shop-canary",
				status.ResourceAck{Nacked: version, Message: "bad cluster"})
		}
	}
	tests := []struct {
		name   string
		change func(*replica)
		want   string
	}{
		{"none", func(*replica) {}, ""},
		{"a cluster in its present version", cluster("c"), "bad cluster"},
		{"a cluster in an old version", cluster("b"), ""},
		{"a scope in its present version", func(r *replica) {
			r.setAck(peer, resourcev3.ScopedRouteType, "shop.test", r.nack("shop.test"))
		}, "bad scope"},
		{"endpoints, without a reason", func(r *replica) {
			r.setAck(peer, resourcev3.EndpointType, "apps/shop/shop-stable", status.ResourceAck{Nacked: "e"})
		}, "no reason given"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newReplica()
			r.record(map[string]uint32{"shop": 20, "other": 20})
			r.confirm(peer)
			r.sync()
			r.record(map[string]uint32{"shop": 50, "other": 20})
			test.change(r)
			r.sync()
			if got, _ := r.ackOf("10.0.0.7", shopKey()); got != (peers.Ack{NackMessage: test.want}) {
				t.Errorf("the ack is %+v, want the rejection %q", got, test.want)
			}
			if got, _ := r.ackOf("10.0.0.7", otherKey()); got != (peers.Ack{Acked: true}) {
				t.Errorf("the ACK of the other object is %+v", got)
			}
		})
	}
}

// replicaWith returns a replica with connected peers that have confirmed everything.
func replicaWith(weights map[string]uint32, peers ...string) *replica {
	r := newReplica()
	r.record(weights)
	for _, address := range peers {
		r.confirm(address)
	}
	r.sync()
	return r
}

// countAcks counts the ACKs of an object as wanted publishes it.
func countAcks(key model.Key, wanted *replica, proxies []model.Proxy, all ...*replica) status.Acks {
	var states []*peers.State
	for _, r := range all {
		r.server.Read(func(state *peers.State) { states = append(states, state) })
	}
	return status.CountAcks(key, "apps", wanted.known[key], proxies, states)
}

func TestCountAcks(t *testing.T) {
	now, before := map[string]uint32{"shop": 50, "other": 0}, map[string]uint32{"shop": 20, "other": 0}
	first := replicaWith(now, "10.0.0.1:1", "10.0.0.2:1")
	second := replicaWith(now, "10.0.0.3:1")
	late := replicaWith(before, "10.0.0.4:1", "10.0.0.1:1")
	both := []model.Proxy{readyProxy("a", "fd00::1", "10.0.0.1"), readyProxy("b", "10.0.0.3")}
	starting := model.Proxy{Name: "starting", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.8")}}
	counts := func(ready, acked int32) httpv1alpha1.ProxyCounts {
		return httpv1alpha1.ProxyCounts{Ready: ready, Acked: acked}
	}
	tests := []struct {
		name        string
		proxies     []model.Proxy
		replicas    []*replica
		shop, other httpv1alpha1.ProxyCounts
	}{
		{"no proxy", nil, nil, counts(0, 0), counts(0, 0)},
		{"the proxies of the fleet", both, []*replica{first, second}, counts(2, 2), counts(2, 2)},
		{
			"one that is not Ready does not count", append(both[:2:2], starting),
			[]*replica{first, second},
			counts(2, 2),
			counts(2, 2),
		},
		{"a replica is unreachable", both, []*replica{first}, counts(2, 1), counts(2, 1)},
		{
			"a proxy is not connected", append(both[:2:2], readyProxy("c", "10.0.0.9")),
			[]*replica{first, second},
			counts(3, 2), counts(3, 2),
		},
		{
			"a replica has an older shop",
			[]model.Proxy{readyProxy("d", "10.0.0.4")},
			[]*replica{first, late},
			counts(1, 0), counts(1, 1),
		},
		{
			"a proxy is connected to two replicas, of which one has an older shop", both[:1],
			[]*replica{first, late},
			counts(1, 0), counts(1, 1),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for key, want := range map[model.Key]httpv1alpha1.ProxyCounts{
				shopKey():  test.shop,
				otherKey(): test.other,
			} {
				got := countAcks(key, first, test.proxies, test.replicas...)
				if diff := cmp.Diff(status.Acks{Proxies: want, AsDesired: true}, got); diff != "" {
					t.Errorf("ACKs of %s (-want +got):\n%s", key, diff)
				}
			}
		})
	}
}

// TestRejectionNamesTheProxy rejects an object by a proxy that isn't Ready: that is a bug, too.
func TestRejectionNamesTheProxy(t *testing.T) {
	r := replicaWith(map[string]uint32{"shop": 50}, peer)
	r.setAck(peer, resourcev3.ScopedRouteType, "shop.test", r.nack("shop.test"))
	r.sync()
	proxy := readyProxy("a", "10.0.0.7")
	proxy.IsReady = false
	if got := countAcks(shopKey(), r, []model.Proxy{proxy}, r); got.Rejection != "proxy 10.0.0.7: bad scope" ||
		got.Proxies.Ready != 0 {
		t.Errorf("ACKs %+v", got)
	}
}

// TestFleetsAreIndependent has one host in two fleets: the ACKs of one fleet's proxies don't count for the other.
func TestFleetsAreIndependent(t *testing.T) {
	config := splitAt(map[string]uint32{"shop": 20})
	here := publications(config)[shopKey()]
	config.Routes[0].Fleet = "keda"
	there := publications(config)[shopKey()]
	if here.Digest == there.Digest || there.Fleet != "keda" {
		t.Errorf("in two fleets the digests are %x and %x", here.Digest, there.Digest)
	}
	r, elsewhere := newReplica(), model.Key{Namespace: "else", Name: "shop"}
	r.publish(config)
	r.known = map[model.Key]status.Publication{shopKey(): here, elsewhere: there}
	r.tracker.Record(r.known, r.Versions())
	r.confirm(peer)
	r.sync()
	if got, _ := r.ackOf("10.0.0.7", shopKey()); !got.Acked {
		t.Errorf("the ACK of the object of its fleet is %+v", got)
	}
	if got, _ := r.ackOf("10.0.0.7", elsewhere); got.Acked {
		t.Errorf("the proxy of another fleet has the object")
	}
	moved := map[model.Key]status.Publication{shopKey(): there}
	r.known[shopKey()] = there
	r.tracker.Record(moved, r.Versions())
	r.sync()
	if got, _ := r.ackOf("10.0.0.7", shopKey()); got.Acked {
		t.Errorf("the proxy has an object that its fleet no longer has")
	}
}

func TestRejectionIsACondition(t *testing.T) {
	got := conditions(t, status.Compute(shop(), ingest.Outcome{Served: true},
		status.Acks{Rejection: "proxy 10.0.0.7: bad route"}, "interceptor-0", noon()))["Ready"]
	want := condition{
		"False", "RejectedByProxy", "A proxy rejected the route and keeps its previous configuration; this is a " +
			"bug in " +
			"the interceptor: proxy 10.0.0.7: bad route",
		got.since,
	}
	if got != want {
		t.Errorf("condition %+v, want %+v", got, want)
	}
}
