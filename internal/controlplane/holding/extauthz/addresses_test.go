package extauthz_test

import (
	"net/netip"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestCallFromAnotherAddressOfTheProxy: the discovery stream of a dual-stack proxy comes from its IPv4 address, and its
// calls from its IPv6 address. An address that another proxy claims too identifies no proxy.
func TestCallFromAnotherAddressOfTheProxy(t *testing.T) {
	t.Parallel()
	second, third := netip.MustParseAddr("fd00::7"), netip.MustParseAddr("fd00::8")
	own := model.Proxy{Name: "own", Addresses: []netip.Addr{proxy, second}}
	for name, test := range map[string]struct {
		fleets map[model.Fleet][]model.Proxy
		from   netip.Addr
		want   codes.Code
	}{
		"its own":             {map[model.Fleet][]model.Proxy{"apps": {own}}, second, codes.OK},
		"the stream's":        {map[model.Fleet][]model.Proxy{"apps": {own}}, proxy, codes.OK},
		"of an unknown proxy": {map[model.Fleet][]model.Proxy{"apps": {own}}, third, codes.Unavailable},
		"claimed by another fleet": {map[model.Fleet][]model.Proxy{
			"apps": {own}, "other": {{Name: "x", Addresses: []netip.Addr{second, third}}},
		}, second, codes.Unavailable},
		"of another fleet that claims the stream's": {map[model.Fleet][]model.Proxy{
			"apps": {own}, "other": {{Name: "x", Addresses: []netip.Addr{proxy, third}}},
		}, third, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T, s *fixture) {
				t.Helper()
				s.stream.serves.Store(true)
				s.SetProxies(test.fleets)
				_, err := check(callContextFor(t.Context(), test.from, cluster), s.Server, new(authv3.CheckRequest))
				if status.Code(err) != test.want {
					t.Errorf("call: %v, want %s", err, test.want)
				}
			})
		})
	}
}
