package xds

import (
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// witness is a Follower that notes what it is told, and whether cluster a served then.
type witness struct {
	mu    sync.Mutex
	seen  []string
	heard chan struct{} // has room for what the tests do
}

func (w *witness) note(what string, stream StreamState) {
	if stream.Serves("a") {
		what += ", serves"
	}
	w.mu.Lock()
	w.seen = append(w.seen, what)
	w.mu.Unlock()
	w.heard <- struct{}{}
}

func (w *witness) Opened(stream StreamState)    { w.note("opened", stream) }
func (w *witness) Closed(stream StreamState)    { w.note("closed", stream) }
func (w *witness) Confirmed(stream StreamState) { w.note("confirmed", stream) }

// TestAFollowerHearsWhatAProxyServes: each confirmation of endpoints, with what is in force then, and nothing else.
func TestAFollowerHearsWhatAProxyServes(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := &witness{heard: make(chan struct{}, 100)}
			s := serve(t, Options{Follower: w})
			s.world("a/1.none listener:web web>a")
			client := kit.NewXDSClient(t, s.conn, mode)
			client.WaitFor(s.settled)
			<-w.heard // opened
			<-w.heard
			s.world("a/1.2 listener:web web>a")
			<-w.heard
			s.world("a/1.2 listener:web web/2>a") // No endpoints are in it.
			client.WaitFor(s.settled)
			s.world("a/1.none listener:web web/2>a")
			<-w.heard
			client.Disconnect()
			<-w.heard
			w.mu.Lock()
			defer w.mu.Unlock()
			want := []string{"opened", "confirmed", "confirmed, serves", "confirmed", "closed"}
			if diff := cmp.Diff(want, w.seen); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestASocketServesNobody: it is the proxy itself, which keeps what it is sent.
func TestASocketServesNobody(t *testing.T) {
	t.Parallel()
	endpoint := func(address *corev3.Address) *endpointv3.LbEndpoint {
		return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}}}
	}
	socket := endpoint(&corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "@net"}}})
	pod := endpoint(&corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "10.0.0.1"}}})
	for name, c := range map[string]struct {
		endpoints []*endpointv3.LbEndpoint
		want      bool
	}{
		"a socket": {[]*endpointv3.LbEndpoint{socket}, false}, "a Pod": {[]*endpointv3.LbEndpoint{pod}, true},
		"both": {[]*endpointv3.LbEndpoint{socket, pod}, true}, "none": {nil, false},
	} {
		group := &endpointv3.LocalityLbEndpoints{LbEndpoints: c.endpoints}
		if got := isServing(&endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{group}}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
