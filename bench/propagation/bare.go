package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// bare is a discovery server without a control plane: it sends one proxy what was marshalled before, and takes no notice of what that answers.
type bare struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	server    *grpc.Server
	xdsPort   int
	proxyPort int // of the listener that it serves

	mu     sync.Mutex
	all    map[string][]*discoveryv3.Resource // what is sent at first, by type URL
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	sent   int
}

// startBare starts a server that has nothing to send.
func startBare(ctx context.Context) (*bare, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("the listener has the address %v", listener.Addr())
	}
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		return nil, err
	}
	b := &bare{server: grpc.NewServer(), xdsPort: address.Port, proxyPort: ports[0]}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(b.server, b)
	go func() { _ = b.server.Serve(listener) }() // It ends with stop; a failure shows as a proxy that is never ready.
	return b, nil
}

// hold sets what a proxy that connects is sent.
func (b *bare) hold(resources translate.Resources) error {
	all := map[string][]*discoveryv3.Resource{}
	for typeURL, messages := range resources {
		for name, message := range messages {
			if listener, is := message.(*listenerv3.Listener); is {
				listener = proto.CloneOf(listener)
				listener.GetAddress().GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: uint32(b.proxyPort)} //nolint:gosec // a port
				message = listener
			}
			packed, err := anypb.New(message)
			if err != nil {
				return err
			}
			all[typeURL] = append(all[typeURL], &discoveryv3.Resource{Name: name, Version: "0", Resource: packed})
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all, b.stream = all, nil
	return nil
}

// push sends a scope.
func (b *bare) push(scope *anypb.Any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream == nil {
		return errNotReady
	}
	b.sent++
	return b.respond(resourcev3.ScopedRouteType, &discoveryv3.Resource{Name: hostOf(0), Version: strconv.Itoa(b.sent), Resource: scope})
}

// respond sends resources. The caller holds the lock.
func (b *bare) respond(typeURL string, resources ...*discoveryv3.Resource) error {
	b.sent++
	return b.stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: strconv.Itoa(b.sent), Resources: resources})
}

// DeltaAggregatedResources answers the first request for each type with everything of it, and later ones not at all.
func (b *bare) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
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
		err = b.respond(request.GetTypeUrl(), b.all[request.GetTypeUrl()]...)
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
