package xds

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	// routesField and nameField are the numbers of ScopedRouteConfiguration.route_configuration and
	// RouteConfiguration.name.
	routesField, nameField = protowire.Number(5), protowire.Number(1)
	// secretNameField is the number of Secret.name.
	secretNameField = protowire.Number(1)
)

// resource is one named resource in one version. It is immutable and shared by all streams, its
// marshalled form included.
type resource struct {
	name    string
	version version
	// body is the marshalled message, packed if there is a pattern. Nil for a resource that a reconnecting
	// proxy says it has in a version that this server doesn't know.
	body    []byte
	pattern *pattern
	kind    kind
	// byEDS tells of a cluster that it gets endpoints by EDS: those of its own name.
	byEDS bool
	// serving tells of endpoints whether one of them takes new requests.
	serving bool
	// clusters are the names of the clusters to which a scope may send requests, sorted.
	clusters []string
	// onDemand tells of a listener that it asks for the certificate of whatever name clients send.
	onDemand bool
}

// newResource marshals and hashes a message once, for all streams.
func newResource(k kind, name string, message proto.Message) (*resource, error) {
	r := &resource{name: name, kind: k}
	own, err := r.inspect(k, message)
	if err != nil {
		return nil, err
	}
	if own != name {
		return nil, fmt.Errorf("%s %q is published as %q: the names must be equal: %w",
			k, own, name, ErrInconsistent)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("marshal %s %q: %w", k, name, err)
	}
	r.version, r.body = hashOf(body), body
	return r, nil
}

// inspect reads what the session has to know from the message and returns the name that the message
// gives itself.
func (r *resource) inspect(k kind, message proto.Message) (string, error) {
	switch m := message.(type) {
	case *clusterv3.Cluster:
		if k == clusterKind {
			return m.GetName(), r.inspectCluster(m)
		}
	case *endpointv3.ClusterLoadAssignment:
		if k == endpointKind {
			r.serving = isServing(m)
			return m.GetClusterName(), nil
		}
	case *listenerv3.Listener:
		if k == listenerKind {
			r.onDemand = isOnDemand(m)
			return m.GetName(), nil
		}
	case *tlsv3.Secret:
		if k == secretKind {
			return m.GetName(), nil
		}
	case *routev3.ScopedRouteConfiguration:
		if k == scopeKind && m.GetRouteConfiguration() != nil {
			r.clusters = clustersOf(m.GetRouteConfiguration())
			return m.GetName(), nil
		}
	}
	return "", fmt.Errorf("%q is a %T, which is no %s with content: %w",
		r.name, message, k, ErrInconsistent)
}

// inOtherBytes is a scope with the same content and version in other bytes. To the marshalled form
// it appends the route configuration once more with nothing but a name of its own: a field that stands
// there twice is merged, and of a text in it the last one counts
// (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
func (r *resource) inOtherBytes(salt string) *resource {
	var routes []byte
	routes = protowire.AppendTag(routes, nameField, protowire.BytesType)
	routes = protowire.AppendString(routes, r.name+"@"+salt)
	body := protowire.AppendTag(slices.Clone(r.message()), routesField, protowire.BytesType)
	body = protowire.AppendBytes(body, routes)
	other := *r
	other.body, other.pattern = body, nil
	return &other
}

// known is false for a resource of which only the proxy knows the content.
func (r *resource) known() bool { return r.body != nil }

// message is the marshalled message.
func (r *resource) message() []byte {
	if r.pattern == nil {
		return r.body
	}
	return r.pattern.unpack(r.body)
}

// wrapped is the resource as it travels.
func (r *resource) wrapped() *anypb.Any {
	body := r.message()
	if r.kind == secretKind {
		body = protowire.AppendTag(slices.Clip(body), secretNameField, protowire.BytesType)
		body = protowire.AppendString(body, r.name) // The last one counts, see inOtherBytes.
	}
	return &anypb.Any{TypeUrl: r.kind.typeURL(), Value: body}
}

// refersTo tells whether a scope may send requests to the cluster. Of an unknown one the worst is
// assumed.
func (r *resource) refersTo(cluster string) bool {
	if !r.known() {
		return true
	}
	_, found := slices.BinarySearch(r.clusters, cluster)
	return found
}

// needsEndpoints tells whether a cluster gets endpoints by EDS. Of an unknown one the usual is assumed.
func (r *resource) needsEndpoints() bool { return r.byEDS || !r.known() }

// is tells whether a resource, which may be nil, has the version of another one.
func (r *resource) is(other *resource) bool { return r != nil && r.version == other.version }
