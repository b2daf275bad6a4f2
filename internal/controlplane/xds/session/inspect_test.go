package session

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// TestAcceptsRequests requires that a pipe does not count as serving: it is a socket of the proxy itself, which queues
// requests. An endpoint that drains accepts none.
func TestAcceptsRequests(t *testing.T) {
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
	draining := &endpointv3.LbEndpoint{HealthStatus: corev3.HealthStatus_DRAINING, HostIdentifier: pod.GetHostIdentifier()}
	for name, c := range map[string]struct {
		endpoints         []*endpointv3.LbEndpoint
		serving, queueing bool
	}{
		"a socket":                     {[]*endpointv3.LbEndpoint{socket}, false, true},
		"a Pod":                        {[]*endpointv3.LbEndpoint{pod}, true, false},
		"both":                         {[]*endpointv3.LbEndpoint{socket, pod}, true, true},
		"a socket and a Pod that ends": {[]*endpointv3.LbEndpoint{socket, draining}, false, true},
		"none":                         {nil, false, false},
	} {
		group := &endpointv3.LocalityLbEndpoints{LbEndpoints: c.endpoints}
		serving, queueing := acceptsRequests(
			&endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{group}},
		)
		if serving != c.serving || queueing != c.queueing {
			t.Errorf("%s: serving %t, queueing %t", name, serving, queueing)
		}
	}
}
