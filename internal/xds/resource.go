package xds

import (
	"fmt"
	"slices"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// versionBytes is the length of the content hash that is kept as the version:
// 128 bits, so two contents of one name never share a version by accident or by
// intent.
const versionBytes = 16

// resource is one named resource in one version. It is immutable and shared by
// all streams, its marshalled form included.
type resource struct {
	name    string
	version string
	// pack returns the resource as it travels. Nil for a resource that a
	// reconnecting proxy says it has in a version that this server doesn't know.
	pack func() *anypb.Any
	// table is a route configuration taken apart.
	table *table
	// endpoints is the name under which a cluster asks for its endpoints; empty
	// when it doesn't get them by EDS.
	endpoints string
	// serving tells of endpoints whether one of them takes new requests.
	serving bool
}

// newResource marshals and hashes a message once, for all streams. What a route
// configuration has in common with the one before (nil for none) is taken over.
func newResource(k kind, name string, message proto.Message, before *resource) (*resource, error) {
	r := &resource{name: name}
	own, err := r.inspect(k, message)
	if err != nil {
		return nil, err
	}
	if own != name {
		return nil, fmt.Errorf("%s %q is published as %q: the names must be equal: %w", k, own, name, ErrInconsistent)
	}
	if routes, is := message.(*routev3.RouteConfiguration); is {
		var known *table
		if before != nil {
			known = before.table
		}
		if r.table, err = newTable(known, routes); err != nil {
			return nil, fmt.Errorf("%s %q: %w", k, name, err)
		}
		r.version, r.pack = r.table.version(), sync.OnceValue(r.table.pack)
		return r, nil
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("marshal %s %q: %w", k, name, err)
	}
	packed := &anypb.Any{TypeUrl: k.typeURL(), Value: body}
	r.version, r.pack = hashOf(body), func() *anypb.Any { return packed }
	return r, nil
}

// newTableResource makes a resource of a table that is for one stream only. It is
// put together whenever it is sent and not kept.
func newTableResource(name string, t *table) *resource {
	return &resource{name: name, version: t.version(), table: t, pack: t.pack}
}

// inspect reads what the session has to know from the message and returns the
// name that the message gives itself.
func (r *resource) inspect(k kind, message proto.Message) (string, error) {
	switch m := message.(type) {
	case *clusterv3.Cluster:
		if k == clusterKind {
			r.endpoints = endpointsOf(m)
			return m.GetName(), nil
		}
	case *endpointv3.ClusterLoadAssignment:
		if k == endpointKind {
			r.serving = isServing(m)
			return m.GetClusterName(), nil
		}
	case *listenerv3.Listener:
		if k == listenerKind {
			return m.GetName(), nil
		}
	case *routev3.RouteConfiguration:
		if k == routeKind {
			return m.GetName(), nil
		}
	}
	return "", fmt.Errorf("%q is a %T, which is no %s: %w", r.name, message, k, ErrInconsistent)
}

// parts is the table of a route configuration; nil when it is unknown, or there is
// no resource at all.
func (r *resource) parts() *table {
	if r == nil {
		return nil
	}
	return r.table
}

// known is false for a resource of which only the proxy knows the content.
func (r *resource) known() bool { return r.pack != nil }

// refersTo tells whether a route configuration may send requests to the cluster.
// Of an unknown one the worst is assumed.
func (r *resource) refersTo(cluster string) bool {
	if !r.known() {
		return true
	}
	_, found := slices.BinarySearch(r.table.clusters(), cluster)
	return found
}

// endpointsName is the name under which the endpoints of a cluster go. Of an
// unknown cluster the usual is assumed: its own name.
func (r *resource) endpointsName() string {
	if !r.known() {
		return r.name
	}
	return r.endpoints
}
