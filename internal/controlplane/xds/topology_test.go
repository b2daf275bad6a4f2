package xds

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// priorities returns the priorities of the groups of endpoints in each response.
func (t *fakeTransport) priorities() (responses []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.sent {
		for _, res := range r.Resources {
			assignment := new(endpointv3.ClusterLoadAssignment)
			if err := res.Any(nil).UnmarshalTo(assignment); err != nil {
				continue // It is of another kind.
			}
			priorities := []uint32{}
			for _, group := range assignment.GetEndpoints() {
				priorities = append(priorities, group.GetPriority())
			}
			responses = append(responses, fmt.Sprint(priorities))
		}
	}
	return responses
}

// TestTopologyOfMembers has the priorities of the zones 1 and 2 that a proxy receives as its own zone changes. The
// clock is that of synctest.
func TestTopologyOfMembers(t *testing.T) {
	t.Parallel()
	v4, v6, other := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7"), netip.MustParseAddr("10.0.0.8")
	members := func(topologies map[Member]session.Topology) Members {
		return Members{Fleets: map[netip.Addr][]string{v4: {"a"}, v6: {"a"}}, Topologies: topologies}
	}
	in := func(zone string) Members {
		return members(map[Member]session.Topology{{"a", v4}: {Zone: zone}, {"a", v6}: {Zone: zone}})
	}
	for name, test := range map[string]struct {
		members []Members // one after the other; the first one before the stream
		from    string    // the source address
		want    []string
	}{
		"no zones": {from: "10.0.0.7", members: []Members{members(nil)}, want: []string{"[0 0]"}},
		"zone of another proxy": {
			from:    "10.0.0.7",
			members: []Members{members(map[Member]session.Topology{{"a", other}: {Zone: "1"}})}, want: []string{"[0 0]"},
		},
		"zone of another fleet": {
			from:    "10.0.0.7",
			members: []Members{members(map[Member]session.Topology{{"b", v4}: {Zone: "1"}})}, want: []string{"[0 0]"},
		},
		"a zone":            {from: "10.0.0.7", members: []Members{in("2")}, want: []string{"[1 0]"}},
		"a zone, over IPv6": {from: "fd00::7", members: []Members{in("2")}, want: []string{"[1 0]"}},
		"a zone, over IPv4 in IPv6 form": {
			from: "::ffff:10.0.0.7", members: []Members{in("2")}, want: []string{"[1 0]"},
		},
		"the zone becomes known": {
			from: "10.0.0.7", members: []Members{members(nil), in("2"), in("2")}, want: []string{"[0 0]", "[1 0]"},
		},
		"the zone changes": {
			from: "10.0.0.7", members: []Members{in("1"), in("2")}, want: []string{"[0 1]", "[1 0]"},
		},
		"the zone, then the address disappears": {
			from: "10.0.0.7", members: []Members{in("1"), members(nil), {}, in("1")}, want: []string{"[0 1]"},
		},
	} {
		for _, mode := range []session.Mode{session.ModeDelta, session.ModeStateOfTheWorld} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := NewServer(Options{})
					s.SetMembers(test.members[0])
					desired := envoyresources.Parse(t, "x web/1>x")
					endpoints := envoyresources.Endpoints("x", "1")
					endpoints.Endpoints = append(endpoints.Endpoints, envoyresources.Endpoints("x", "2").GetEndpoints()...)
					desired[session.EndpointKind.TypeURL()] = map[string]proto.Message{"x": endpoints}
					if err := s.Publish("a", desired); err != nil {
						t.Fatal(err)
					}
					transport := &fakeTransport{mode: mode, requests: make(chan session.Request)}
					from := &net.TCPAddr{IP: net.ParseIP(test.from), Port: 40000}
					ended := make(chan error)
					go func() { ended <- s.serve(peer.NewContext(t.Context(), &peer.Peer{Addr: from}), mode, transport) }()
					transport.requests <- session.Request{
						TypeURL: session.EndpointKind.TypeURL(), Subscribe: []string{"x"}, Names: []string{"x"},
					}
					synctest.Wait()
					for _, next := range test.members[1:] {
						s.SetMembers(next)
						synctest.Wait()
					}
					if diff := cmp.Diff(test.want, transport.priorities()); diff != "" {
						t.Errorf("sent (-want +got):\n%s", diff)
					}
					close(transport.requests)
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
