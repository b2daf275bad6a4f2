// Package bareserver is a discovery server without a control plane, for benchmarks: it sends one proxy
// what was marshalled before, and takes no notice of what that answers. Nothing that decides what to
// send can be faster.
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

// ErrNotReady says that there is no proxy yet, or no such resource.
var ErrNotReady = errors.New("not ready")

// proxyPort is the port of the listener, which has an address of its own.
const proxyPort = 18080

// Server serves one proxy. Make it with Start.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	// Address is where it serves, and Proxy the address of the listener that it serves.
	Address, Proxy netip.AddrPort

	server *grpc.Server
	mu     sync.Mutex
	forms  []map[string]map[string]*anypb.Any // by type URL and name; the first form is sent at first
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	sent   int
}

// Start starts a server that has nothing to send.
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
	go func() { _ = b.server.Serve(listener) }() // It ends with Stop; a failure shows as a proxy that is never ready.
	return b, nil
}

// Stop ends the server.
func (b *Server) Stop() { b.server.Stop() }

// Hold sets the forms of the resources. A proxy that connects is sent the first one.
func (b *Server) Hold(forms ...translate.Resources) error {
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
	if listener, is := message.(*listenerv3.Listener); is {
		listener = proto.CloneOf(listener)
		if socket := listener.GetAddress().GetSocketAddress(); socket != nil { // The net of held requests has none.
			socket.Address = b.Proxy.Addr().String()
			socket.PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: uint32(b.Proxy.Port())}
		}
		message = listener
	}
	return anypb.New(message)
}

// Push sends a form of a resource. Without a proxy, or without such a resource, that is ErrNotReady.
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
	return b.stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: strconv.Itoa(b.sent), Resources: resources})
}

// DeltaAggregatedResources answers the first request for each type with everything of it, and later ones not at all.
func (b *Server) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
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
