package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// hinted returns the endpoints of cluster a: a group with an endpoint for each hint, "zones/nodes", or "-" for none.
func hinted(hints ...string) *endpointv3.ClusterLoadAssignment {
	assignment := &endpointv3.ClusterLoadAssignment{ClusterName: "a"}
	for _, text := range hints {
		group := &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{}}}
		if text != "-" {
			zones, nodes, _ := strings.Cut(text, "/")
			group.Locality = &corev3.Locality{Zone: zones, SubZone: nodes}
		}
		assignment.Endpoints = append(assignment.Endpoints, group)
	}
	return assignment
}

// prioritiesOf returns the priorities of the groups of a resource as it is sent.
func prioritiesOf(t *testing.T, res *Resource) []uint32 {
	t.Helper()
	assignment := new(endpointv3.ClusterLoadAssignment)
	if err := res.Any(nil).UnmarshalTo(assignment); err != nil {
		t.Fatal(err)
	}
	var priorities []uint32
	for _, group := range assignment.GetEndpoints() {
		priorities = append(priorities, group.GetPriority())
	}
	return priorities
}

// TestPriorities requires the priorities of groups for the topology of a proxy, and that nothing else is sent than with
// priorities that were set before the message was marshalled.
func TestPriorities(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groups   []string
		topology Topology
		want     []uint32
	}{
		"own zone":                        {[]string{"a", "b", "c"}, Topology{Zone: "b"}, []uint32{1, 0, 1}},
		"several zones":                   {[]string{"a,b", "b,c", "d"}, Topology{Zone: "b"}, []uint32{0, 0, 1}},
		"a part of a name":                {[]string{"aa", "a"}, Topology{Zone: "a"}, []uint32{1, 0}},
		"no endpoint for the zone":        {[]string{"a", "b"}, Topology{Zone: "c"}, []uint32{0, 0}},
		"unknown zone":                    {[]string{"a", "b", "-"}, Topology{}, []uint32{0, 0, 0}},
		"unknown zone, known node":        {[]string{"a", "b", "-"}, Topology{Node: "a"}, []uint32{0, 0, 1}},
		"draining":                        {[]string{"a", "b", "-"}, Topology{Zone: "a"}, []uint32{0, 1, 2}},
		"draining and none for the zone":  {[]string{"a", "b", "-"}, Topology{Zone: "c"}, []uint32{0, 0, 1}},
		"own node":                        {[]string{"a/n1", "a/n2", "b/n3"}, Topology{"a", "n2"}, []uint32{1, 0, 2}},
		"no endpoint for the node":        {[]string{"a/n1", "a/n2", "b/n3"}, Topology{"a", "n4"}, []uint32{0, 0, 1}},
		"none for the node and the zone":  {[]string{"a/n1", "b/n3", "-"}, Topology{"c", "n4"}, []uint32{0, 0, 1}},
		"nodes of one zone":               {[]string{"/n1", "/n2", "-"}, Topology{"a", "n1"}, []uint32{0, 1, 2}},
		"a node without a known zone":     {[]string{"a/n1", "b/n2"}, Topology{Node: "n1"}, []uint32{0, 1}},
		"own node and all others in zone": {[]string{"a/n1", "a/n2"}, Topology{"a", "n1"}, []uint32{0, 1}},
		"no hints":                        {[]string{"-"}, Topology{"a", "n1"}, []uint32{0}},
		"no endpoints":                    {nil, Topology{"a", "n1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := hinted(test.groups...)
			res, err := newResource(EndpointKind, "a", message)
			if err != nil {
				t.Fatal(err)
			}
			sent := res.forTopology(test.topology)
			if diff := cmp.Diff(test.want, prioritiesOf(t, sent)); diff != "" {
				t.Errorf("priorities (-want +got):\n%s", diff)
			}
			for i, priority := range test.want {
				message.GetEndpoints()[i].Priority = priority
			}
			got, err := sent.Any(nil).UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(proto.Message(message), got, protocmp.Transform()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			isPublished := bytes.Equal(sent.Any(nil).GetValue(), res.Any(nil).GetValue())
			hasHints := len(test.groups) > 1
			if isKnown := test.topology != (Topology{}); isPublished == (isKnown && hasHints) {
				t.Errorf("sent as published: %t", isPublished)
			}
			listOf := func(res *Resource) string { return Response{Resources: []*Resource{res}}.Version() }
			if (sent.Version() == res.Version()) != isPublished || (listOf(sent) == listOf(res)) != isPublished ||
				sent.version != res.version {
				t.Errorf("sent as published: %t, version %s of %s", isPublished, sent.Version(), res.Version())
			}
		})
	}
}

// topologyStream is a delta stream with cluster a, whose endpoints have hints for zones a and b, and cluster b, whose
// endpoints have none.
type topologyStream struct {
	t        *testing.T
	session  *Session
	snapshot *Snapshot
	now      time.Time
	got      []string
}

func newTopologyStream(t *testing.T) *topologyStream {
	t.Helper()
	s := &topologyStream{t: t, now: time.Unix(0, 0)}
	s.session = New(ModeDelta, scriptGrace, "salt", new(Rejections).Of("proxy"))
	desired := envoyresources.Parse(t, "a b")
	desired[EndpointKind.TypeURL()]["a"] = hinted("a", "b")
	without := hinted("-")
	without.ClusterName = "b"
	desired[EndpointKind.TypeURL()]["b"] = without
	var err error
	if s.snapshot, err = new(Snapshot).Replace(desired); err != nil {
		t.Fatal(err)
	}
	return s
}

// sent records the endpoints that are sent, and ACKs all responses.
func (s *topologyStream) sent(out Output) {
	s.t.Helper()
	for pending := out.Responses; len(pending) > 0; pending = pending[1:] {
		for _, res := range pending[0].Resources {
			if pending[0].Kind == EndpointKind {
				s.got = append(s.got, fmt.Sprint(res.Name(), prioritiesOf(s.t, res)))
			}
		}
		pending = append(pending, s.session.Receive(s.now, Request{
			TypeURL: pending[0].Kind.TypeURL(), Nonce: pending[0].Nonce,
		}).Responses...)
	}
}

// expect compares what was sent since the last call, and requires that the proxy has ACKed what is published.
func (s *topologyStream) expect(when string, want ...string) {
	s.t.Helper()
	if !slices.Equal(s.got, want) {
		s.t.Errorf("%s: sent %v, want %v", when, s.got, want)
	}
	s.got = nil
	for _, name := range []string{"a", "b"} {
		if got, want := s.session.State(EndpointKind, name).Acked, s.snapshot.Version(EndpointKind, name); got != want {
			s.t.Errorf("%s: the ACKed version of %s is %q, published is %q", when, name, got, want)
		}
	}
	if records := len(s.session.subs[EndpointKind].records); records != 0 {
		s.t.Errorf("%s: %d records", when, records)
	}
}

// connect subscribes to everything, as a new proxy, or as one that has all clusters and these versions of endpoints.
func (s *topologyStream) connect(versions map[string]string) {
	s.t.Helper()
	s.sent(s.session.Publish(s.now, s.snapshot))
	clusters := Request{TypeURL: ClusterKind.TypeURL()}
	if versions != nil {
		clusters.InitialVersions = versionsOf(mapOf(s.snapshot.resources[ClusterKind]))
	}
	s.sent(s.session.Receive(s.now, clusters))
	s.sent(s.session.Receive(s.now, Request{
		TypeURL: EndpointKind.TypeURL(), Subscribe: []string{"a", "b"}, InitialVersions: versions,
	}))
}

// TestTopologyOfAStream has a proxy whose zone becomes known and changes.
func TestTopologyOfAStream(t *testing.T) {
	t.Parallel()
	s := newTopologyStream(t)
	s.connect(nil)
	s.expect("without a zone", "a[0 0]", "b[0]")
	for _, zone := range []string{"a", "b"} {
		s.sent(s.session.SetTopology(s.now, Topology{Zone: zone}))
		s.expect("in zone "+zone, map[string]string{"a": "a[0 1]", "b": "a[1 0]"}[zone])
	}
	next, err := s.snapshot.Apply(envoyresources.Resources{EndpointKind.TypeURL(): {"a": hinted("b", "c")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.snapshot = next
	s.sent(s.session.Publish(s.now, next))
	s.expect("after a change", "a[0 1]")
}

// TestTopologyOfAReconnectedProxy has a proxy that reports the versions that another stream sent.
func TestTopologyOfAReconnectedProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after Topology
		want          []string
	}{
		"the same zone":    {Topology{Zone: "a"}, Topology{Zone: "a"}, nil},
		"no zone":          {Topology{}, Topology{}, nil},
		"another zone":     {Topology{Zone: "a"}, Topology{Zone: "b"}, []string{"a[1 0]"}},
		"another node":     {Topology{"a", "n"}, Topology{"a", "m"}, []string{"a[0 1]"}},
		"now it is known":  {Topology{}, Topology{Zone: "a"}, []string{"a[0 1]"}},
		"it is not known":  {Topology{Zone: "a"}, Topology{}, []string{"a[0 0]"}},
		"zone, not a node": {Topology{Zone: "a"}, Topology{Node: "a"}, []string{"a[0 0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTopologyStream(t)
			s.session.SetTopology(s.now, test.after)
			versions := map[string]string{}
			for name, res := range s.snapshot.resources[EndpointKind].all() {
				versions[name] = res.forTopology(test.before).Version()
			}
			s.connect(versions)
			s.expect("reconnected", test.want...)
		})
	}
}

// BenchmarkEndpointsForTopology sends the endpoints of a Service with a thousand Pods to a proxy.
func BenchmarkEndpointsForTopology(b *testing.B) {
	message := hinted("a", "b", "c")
	for i, group := range message.GetEndpoints() {
		group.LbEndpoints = nil
		for j := range 333 {
			group.LbEndpoints = append(group.LbEndpoints, &endpointv3.LbEndpoint{
				HealthStatus: corev3.HealthStatus_HEALTHY,
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
					Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
						Address: fmt.Sprintf("10.0.%d.%d", i, j), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
					}},
				}}},
			})
		}
	}
	res, err := newResource(EndpointKind, "a", message)
	if err != nil {
		b.Fatal(err)
	}
	for name, topology := range map[string]Topology{"unknown": {}, "zone": {Zone: "b"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = res.forTopology(topology).Any(nil)
			}
		})
	}
}
