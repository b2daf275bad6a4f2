// Package translate turns the model of package ir into what Envoy is configured with.
//
// It is pure and deterministic: equal Configs give resources that are equal byte by byte, so a hash of them tells whether anything changed. There is one
// listener and one route configuration, whatever the world holds; a world without routes has both too, because Envoy isn't ready before it has heard of
// them. Each backend of an HTTPScaledObject has a cluster and a load assignment of its own, named <namespace>/<httpscaledobject>/<service>.
//
// What changes often is kept away from what is expensive to change: endpoints are in load assignments and weights in routes, neither in a cluster, and
// nothing of a tenant is in the listener, whose change would drain every connection.
//
// References are to the v3 API of Envoy 1.40, https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/api.
package translate

import (
	"fmt"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Resources are messages by type URL and resource name: the xDS types Listener, RouteConfiguration, Cluster and ClusterLoadAssignment, each of which has an
// entry even when there are none of it. Messages may share parts, so they must not be changed.
type Resources map[string]map[string]proto.Message

// Options are the choices of an operator that hold for every proxy. The zero value allows no connection; start from DefaultOptions.
type Options struct {
	// AccessLog writes a line of JSON per request to the proxy's standard output.
	AccessLog bool
	// TrustedHops is how many proxies in front of ours, counted from it, are trusted to tell the truth in X-Forwarded-For and X-Forwarded-Proto. With 0
	// the client is whoever connects, and X-Forwarded-Proto is overwritten with http; with 1 or more a header X-Forwarded-Proto that comes in is kept,
	// which an Ingress that terminates TLS needs. X-Forwarded-For is appended to in any case.
	TrustedHops uint32
	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are the circuit breakers of each cluster in each proxy. A request above one of the
	// first three is answered with 503.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint32
}

// DefaultOptions are the Options of an operator who chooses nothing.
func DefaultOptions() Options {
	return Options{
		AccessLog:          true,
		MaxConnections:     8192,
		MaxPendingRequests: 8192,
		MaxRequests:        8192,
		MaxRetries:         3,
	}
}

// Envoy translates config with DefaultOptions.
func Envoy(config ir.Config) (Resources, error) { return DefaultOptions().Envoy(config) }

// Envoy translates config. What resolve.Build makes can always be translated, so an error is a bug; the caller keeps what was last good.
func (o Options) Envoy(config ir.Config) (Resources, error) {
	listener, err := o.listener()
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", ListenerName, err)
	}
	routes, err := routeConfiguration(config)
	if err != nil {
		return nil, fmt.Errorf("route configuration %s: %w", RouteConfigName, err)
	}
	resources := Resources{
		resourcev3.ListenerType: {ListenerName: listener},
		resourcev3.RouteType:    {RouteConfigName: routes},
		resourcev3.ClusterType:  {},
		resourcev3.EndpointType: {},
	}
	factory, err := newClusterFactory(o)
	if err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	for _, route := range config.Routes {
		for _, backend := range route.Backends {
			name := ClusterName(route.Owner, backend.Service)
			if _, done := resources[resourcev3.ClusterType][name]; done {
				continue
			}
			cluster, err := factory.cluster(name, backend.Protocol)
			if err != nil {
				return nil, fmt.Errorf("cluster %s: %w", name, err)
			}
			resources[resourcev3.ClusterType][name] = cluster
			resources[resourcev3.EndpointType][name] = loadAssignment(name, config.Services[backend.ServicePort()])
		}
	}
	return resources, nil
}

// ClusterName returns the name of the cluster, and of its load assignment, that carries the requests which the HTTPScaledObject owner sends to service:
// <namespace>/<httpscaledobject>/<service>. It is an identity: nothing else ever has it, whatever comes and goes.
func ClusterName(owner, service ir.Key) string { return owner.String() + "/" + service.Name }

// pack puts message into an Any. The order of the fields of a map is otherwise random, and an Any keeps the bytes.
func pack(message proto.Message) (*anypb.Any, error) {
	packed := new(anypb.Any)
	if err := anypb.MarshalFrom(packed, message, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("pack %s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	return packed, nil
}
