// Package bareserver is a discovery server without a control plane, for benchmarks: it sends marshalled resources to
// one proxy and ignores its responses. A server that computes what to send cannot be faster.
package bareserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

// ErrNotReady is returned if no proxy is connected or the resource does not exist.
var ErrNotReady = errors.New("not ready")

// proxyPort is the port of the listener, which has an address of its own.
const proxyPort = 18080

// Server serves one proxy. Create it with Start.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	// Address is its own address. Proxy is the address of the listener that it serves.
	Address, Proxy netip.AddrPort

	server *grpc.Server
	mu     sync.Mutex
	forms  []map[string]map[string]*anypb.Any // by type URL and name; the first form is sent first
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	sent   int
}

// Start starts a server without resources.
func Start(ctx context.Context) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	b := &Server{server: grpc.NewServer(), Address: address, Proxy: netip.AddrPortFrom(loopback.Address(), proxyPort)}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(b.server, b)
	go func() { _ = b.server.Serve(listener) }() // It ends with Stop. A failure shows as a proxy that is never ready.
	return b, nil
}

// Stop stops the server.
func (b *Server) Stop() { b.server.Stop() }

// SetForms sets the forms of the resources. A proxy that connects receives the first one.
func (b *Server) SetForms(forms ...translate.Resources) error {
	packed := make([]map[string]map[string]*anypb.Any, len(forms))
	for form, resources := range forms {
		packed[form] = map[string]map[string]*anypb.Any{}
		for typeURL, messages := range resources {
			packed[form][typeURL] = make(map[string]*anypb.Any, len(messages))
			for name, message := range messages {
				var err error
				if packed[form][typeURL][name], err = b.pack(message); err != nil {
					return err
				}
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forms = packed
	return nil
}

// pack marshals a resource. A listener gets the address Proxy.
func (b *Server) pack(message proto.Message) (*anypb.Any, error) {
	if listener, ok := message.(*listenerv3.Listener); ok {
		listener = proto.CloneOf(listener)
		// The fallback listener for queued requests has none.
		if socket := listener.GetAddress().GetSocketAddress(); socket != nil {
			socket.Address = b.Proxy.Addr().String()
			socket.PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: uint32(b.Proxy.Port())}
		}
		message = listener
	}
	return anypb.New(message)
}

// Push sends a form of a resource. Without a proxy or such a resource it returns ErrNotReady.
func (b *Server) Push(typeURL, name string, form int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	resource, known := b.forms[form][typeURL][name]
	if b.stream == nil || !known {
		return fmt.Errorf("%w: %s %s", ErrNotReady, typeURL, name)
	}
	return b.respond(typeURL, &discoveryv3.Resource{
		Name: name, Version: strconv.Itoa(b.sent + 1), Resource: resource,
	})
}

// respond sends resources. The caller holds the lock.
func (b *Server) respond(typeURL string, resources ...*discoveryv3.Resource) error {
	b.sent++
	return b.stream.Send(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: typeURL, Nonce: strconv.Itoa(b.sent), Resources: resources,
	})
}

// DeltaAggregatedResources answers the first request for each type with all resources of the type, and ignores later
// ones.
func (b *Server) DeltaAggregatedResources(
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	b.mu.Lock()
	b.stream = stream
	b.mu.Unlock()
	answered := map[string]bool{}
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the proxy has ended
		}
		if answered[request.GetTypeUrl()] {
			continue
		}
		answered[request.GetTypeUrl()] = true
		b.mu.Lock()
		var all []*discoveryv3.Resource
		for name, resource := range b.forms[0][request.GetTypeUrl()] {
			all = append(all, &discoveryv3.Resource{Name: name, Version: "0", Resource: resource})
		}
		err = b.respond(request.GetTypeUrl(), all...)
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
