package session

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// TestIsServing requires that a pipe does not count as serving: it is a socket of the proxy itself, which queues
// requests.
func TestIsServing(t *testing.T) {
	t.Parallel()
	endpoint := func(address *corev3.Address) *endpointv3.LbEndpoint {
		return &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
		}
	}
	socket := endpoint(&corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "@net"}}})
	pod := endpoint(&corev3.Address{
		Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "10.0.0.1"}},
	})
	for name, c := range map[string]struct {
		endpoints []*endpointv3.LbEndpoint
		want      bool
	}{
		"a socket": {[]*endpointv3.LbEndpoint{socket}, false}, "a Pod": {[]*endpointv3.LbEndpoint{pod}, true},
		"both": {[]*endpointv3.LbEndpoint{socket, pod}, true}, "none": {nil, false},
	} {
		group := &endpointv3.LocalityLbEndpoints{LbEndpoints: c.endpoints}
		if got := isServing(
			&endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{group}},
		); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
