package controlplane

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestMembersOf has an address that two fleets list. The state and the topology of the proxy in one fleet do not depend
// on the other one, because anyone may have written the EndpointSlice of its namespace.
func TestMembersOf(t *testing.T) {
	t.Parallel()
	shared, v6 := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")
	got := membersOf(map[model.Fleet][]model.Proxy{
		"a": {{Name: "a-1", Addresses: []netip.Addr{shared}, Zone: "east", IsServing: true, NeedsToken: true}},
		"b": {{Name: "b-1", Addresses: []netip.Addr{shared, v6}, Zone: "west", IsServing: true, IsReady: true}},
	})
	slices.Sort(got.Fleets[shared])
	inA, inB, inB6 := xds.Member{Fleet: "a", Address: shared}, xds.Member{Fleet: "b", Address: shared},
		xds.Member{Fleet: "b", Address: v6}
	want := xds.Members{
		Fleets: map[netip.Addr][]string{shared: {"a", "b"}, v6: {"b"}}, Draining: []xds.Member{inA},
		Strict:   map[string]bool{"a": true},
		WithIPv6: []xds.Member{inB, inB6},
		Topologies: map[xds.Member]session.Topology{
			inA: {Zone: "east"}, inB: {Zone: "west"}, inB6: {Zone: "west"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}
