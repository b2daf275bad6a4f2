package status_test

import (
	"net"
	"net/netip"
	"sync"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// waitFor waits until the report of shop is as wanted.
func (s *fixture) waitFor(t *testing.T, want string) {
	t.Helper()
	var got string
	await.Described(t, "the report "+want, func() bool {
		got, _ = s.reported()
		return got == want
	}, func() string { return got })
}

// serveReplica starts a gRPC server for the other replicas and returns its address. It stops with the test or the
// returned function.
func serveReplica(t *testing.T, register func(grpc.ServiceRegistrar)) (address string, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop = sync.OnceFunc(func() {
		server.Stop()
		serving.Wait()
	})
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// endpointsOf returns the EndpointSlice of a replica.
func endpointsOf(name, address string) *discoveryv1.EndpointSlice {
	at := netip.MustParseAddrPort(address)
	port, portName := int32(at.Port()), peers.PortName
	pod := &corev1.ObjectReference{Kind: "Pod", Name: name}
	return &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}, TargetRef: pod}},
	}
}

// TestReplicasAreMerged connects one proxy to each of two replicas.
func TestReplicasAreMerged(t *testing.T) {
	s, other := newFixture(t), newFixture(t)
	other.reporter = newReporterWith(t, other.server, other.proxies, "interceptor-1", never)
	at, stop := serveReplica(t, other.reporter.Register)
	s.replicas = []*discoveryv1.EndpointSlice{
		endpointsOf("interceptor-0", "127.0.0.1:1"), endpointsOf("interceptor-1", at),
	}
	other.replicas = s.replicas
	defer s.lead(t)()
	defer other.lead(t)()
	for _, replica := range []*fixture{s, other} {
		replica.canary(20)
	}
	s.proxies.confirm("10.0.0.1:1")
	other.proxies.confirm("10.0.0.2:1")
	s.waitFor(t, "2/2 true")
	for _, replica := range []*fixture{s, other} {
		replica.canary(50)
	}
	s.proxies.confirm("10.0.0.1:1")
	s.waitFor(t, "2/1 false")
	other.proxies.confirm("10.0.0.2:1")
	s.waitFor(t, "2/2 true")
	stop()
	s.waitFor(t, "2/1 false")
}

// TestReplicaWithoutPeerProtocol has a replica with another protocol: only the proxies of this replica count as
// acknowledged.
func TestReplicaWithoutPeerProtocol(t *testing.T) {
	s := newFixture(t)
	at, _ := serveReplica(t, func(grpc.ServiceRegistrar) {})
	s.replicas = []*discoveryv1.EndpointSlice{endpointsOf("interceptor-1", at)}
	defer s.lead(t)()
	s.canary(20)
	s.proxies.confirm("10.0.0.1:1")
	s.waitFor(t, "2/1 false")
}
