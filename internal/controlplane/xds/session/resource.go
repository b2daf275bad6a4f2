package session

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

// Resource is one named resource in one version. It is immutable and shared by all streams, including its marshalled
// form.
type Resource struct {
	name    string
	version version
	// body is the marshalled message, compressed if there is a dictionary. It is nil for a version that a reconnecting
	// proxy reports and this server does not have.
	body       []byte
	dictionary *dictionary
	kind       Kind
	// usesEDS is true for a cluster that receives endpoints by EDS. They have its name.
	usesEDS bool
	// serving is true if at least one endpoint accepts new requests, and queueing if the proxy itself queues them.
	serving, queueing bool
	// clusters are the names of the clusters to which a scope may send requests, sorted.
	clusters []string
	// onDemand is true for a listener that requests certificates by the server names that clients send.
	onDemand bool
	// preference is set for endpoints with hints.
	preference *preference
}

// newResource marshals and hashes a message once, for all streams.
func newResource(k Kind, name string, message proto.Message) (*Resource, error) {
	r := &Resource{name: name, kind: k}
	messageName, err := r.inspect(k, message)
	if err != nil {
		return nil, err
	}
	if messageName != name {
		return nil, fmt.Errorf("%s %q is published as %q: the names must be equal: %w",
			k, messageName, name, ErrInconsistent)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("marshal %s %q: %w", k, name, err)
	}
	r.version, r.body = hashOf(body), body
	return r, nil
}

// inspect reads what a session needs from the message and returns the name in the message.
func (r *Resource) inspect(k Kind, message proto.Message) (string, error) {
	switch m := message.(type) {
	case *clusterv3.Cluster:
		if k == ClusterKind {
			return m.GetName(), r.inspectCluster(m)
		}
	case *endpointv3.ClusterLoadAssignment:
		if k == EndpointKind {
			r.serving, r.queueing = acceptsRequests(m)
			r.preference = preferenceOf(m)
			return m.GetClusterName(), nil
		}
	case *listenerv3.Listener:
		if k == ListenerKind {
			r.onDemand = isOnDemand(m)
			return m.GetName(), nil
		}
	case *tlsv3.Secret:
		if k == SecretKind {
			return m.GetName(), nil
		}
	case *routev3.ScopedRouteConfiguration:
		if k == ScopeKind && m.GetRouteConfiguration() != nil {
			r.clusters = clustersOf(m.GetRouteConfiguration())
			return m.GetName(), nil
		}
	}
	return "", fmt.Errorf("%q is a %T, which is no %s with content: %w", r.name, message, k, ErrInconsistent)
}

// withSalt returns a scope with the same content and version in other bytes. It appends the route configuration once
// more, with nothing but another name: repeated message fields are merged, and the last value of a string field counts
// (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
func (r *Resource) withSalt(salt string) *Resource {
	var routes []byte
	routes = protowire.AppendTag(routes, nameField, protowire.BytesType)
	routes = protowire.AppendString(routes, r.name+"@"+salt)
	body := protowire.AppendTag(r.appendMessage(nil), routesField, protowire.BytesType)
	body = protowire.AppendBytes(body, routes)
	other := *r
	other.body, other.dictionary = body, nil
	return &other
}

// Name returns the name of the resource.
func (r *Resource) Name() string { return r.name }

// Version returns the version of the resource as it is sent.
func (r *Resource) Version() string { return r.sentVersion().String() }

// Any returns the message of the resource as it is sent. Its value is appended to a buffer, nil for a new one.
func (r *Resource) Any(buffer []byte) *anypb.Any {
	body := r.appendMessage(buffer)
	if r.preference != nil && r.preference.topology != (Topology{}) {
		body = r.preference.apply(body)
	}
	if r.kind == SecretKind {
		body = protowire.AppendTag(body, secretNameField, protowire.BytesType)
		body = protowire.AppendString(body, r.name) // The last value counts, see withSalt.
	}
	return &anypb.Any{TypeUrl: r.kind.TypeURL(), Value: body}
}

// hasContent is false for a version whose content only the proxy has.
func (r *Resource) hasContent() bool { return r.body != nil }

// appendMessage appends the marshalled message.
func (r *Resource) appendMessage(to []byte) []byte {
	if r.dictionary == nil {
		return append(to, r.body...)
	}
	return r.dictionary.decompress(to, r.body)
}

// refersTo reports whether a scope may send requests to the cluster. It is true for a scope of unknown content.
func (r *Resource) refersTo(cluster string) bool {
	if !r.hasContent() {
		return true
	}
	_, refers := slices.BinarySearch(r.clusters, cluster)
	return refers
}

// lacksEndpointsOf reports whether fewer requests are served or queued with endpoints than with others, nil for none.
// Others of unknown content may serve.
func (r *Resource) lacksEndpointsOf(other *Resource) bool {
	switch {
	case other == nil || r.serving:
		return false
	case other.serving || !other.hasContent():
		return true
	default:
		return other.queueing && !r.queueing
	}
}

// needsEndpoints reports whether a cluster receives endpoints by EDS. It is true for a cluster of unknown content.
func (r *Resource) needsEndpoints() bool { return r.usesEDS || !r.hasContent() }

// equals reports whether a resource, which may be nil, has the version of another one.
func (r *Resource) equals(other *Resource) bool { return r != nil && r.version == other.version }
