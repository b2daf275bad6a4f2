package main

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
)

const (
	// maxResponse is the size limit of a response, in bytes.
	maxResponse = 256 << 20
	// reconnectAfter is the pause before a client of the crowd reconnects, as in the bootstrap of kedify-proxy.
	reconnectAfter = 100 * time.Millisecond
)

// clients are discovery clients that receive and ACK all resources and store only their versions.
type clients struct {
	members []*member
	group   sync.WaitGroup
}

// startClients starts clients of a server.
func startClients(ctx context.Context, size int, server netip.AddrPort) *clients {
	c := new(clients)
	for range size {
		m := &member{versions: map[string]map[string]string{}}
		c.members = append(c.members, m)
		c.group.Go(func() { m.run(ctx, server) })
	}
	return c
}

// isServed reports whether every client has received a listener on a stream of this number, counted from 1, or a later
// one.
func (c *clients) isServed(stream int64) bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return m.served.Load() < stream })
}

// await waits until isServed, and returns the duration.
func (c *clients) await(ctx context.Context, stream int64) (time.Duration, error) {
	began := time.Now()
	for !c.isServed(stream) {
		if err := pace.Wait(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// member is one client of a crowd.
type member struct {
	from     netip.Addr                   // the source address; the zero Addr for any
	versions map[string]map[string]string // by type URL and name
	streams  int64
	served   atomic.Int64 // the number of the newest stream with a response for scopes
}

// run connects, and reconnects until ctx ends.
func (m *member) run(ctx context.Context, server netip.AddrPort) {
	for ctx.Err() == nil {
		m.streams++
		_ = m.follow(ctx, server) // It ends when the connection is cut.
		if pace.Wait(ctx, reconnectAfter) != nil {
			return
		}
	}
}

// follow receives the responses of one stream, over a connection of its own.
func (m *member) follow(ctx context.Context, server netip.AddrPort) (err error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
	}
	if m.from.IsValid() {
		options = append(options, dialFrom(m.from))
	}
	connection, err := grpc.NewClient(server.String(), options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	for _, typeURL := range []string{
		resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.ScopedRouteType,
	} {
		request := &discoveryv3.DeltaDiscoveryRequest{
			Node: &corev3.Node{Id: "kedify-proxy"}, TypeUrl: typeURL, InitialResourceVersions: m.versions[typeURL],
		}
		if typeURL == resourcev3.EndpointType {
			request.ResourceNamesSubscribe = slices.Collect(maps.Keys(m.versions[resourcev3.ClusterType]))
			if len(request.GetResourceNamesSubscribe()) == 0 {
				continue
			}
		}
		if err := stream.Send(request); err != nil {
			return err
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := m.handleResponse(stream, response); err != nil {
			return err
		}
	}
}

// handleResponse stores the versions of a response, ACKs it, and requests the endpoints of new clusters.
func (m *member) handleResponse(
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient,
	response *discoveryv3.DeltaDiscoveryResponse,
) error {
	versions := m.versions[response.GetTypeUrl()]
	if versions == nil {
		versions = map[string]string{}
		m.versions[response.GetTypeUrl()] = versions
	}
	var fresh []string
	for _, resource := range response.GetResources() {
		if _, known := versions[resource.GetName()]; !known {
			fresh = append(fresh, resource.GetName())
		}
		versions[resource.GetName()] = resource.GetVersion()
	}
	for _, name := range response.GetRemovedResources() {
		delete(versions, name)
	}
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}
	if err := stream.Send(answer); err != nil {
		return err
	}
	switch {
	case response.GetTypeUrl() == resourcev3.ScopedRouteType:
		m.served.Store(m.streams)
	case response.GetTypeUrl() == resourcev3.ClusterType && len(fresh) > 0:
		return stream.Send(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: resourcev3.EndpointType, ResourceNamesSubscribe: fresh,
		})
	}
	return nil
}
