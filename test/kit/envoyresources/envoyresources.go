// Package envoyresources builds Envoy resources for tests of the discovery server from a short notation.
package envoyresources

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// NoneServing is the version of endpoints none of which accepts requests.
	NoneServing = "none"
	// Queue is the version of endpoints that consist of a socket of the proxy itself, which queues requests.
	Queue = "queue"
)

// Resources are messages by type URL and resource name.
type Resources = map[string]map[string]proto.Message

// Parse returns the resources of a list of items, separated by spaces. A version that is missing is 1.
//
//	a  a/2            an EDS cluster with its endpoints, both in that version
//	a/2.1             the same with endpoints in another version; none of the endpoints a/2.none serves, and those of
//	                  a/2.queue queue requests
//	static:a          a cluster without endpoints from EDS
//	listener:web      a listener with scoped routes
//	demand:tls        a listener that requests certificates by the names that clients send
//	secret:a.test     the certificate of a host
//	web/2>a,b         a scope with routes to the clusters a and b
func Parse(tb testing.TB, items string) Resources {
	tb.Helper()
	resources := Resources{}
	put := func(typeURL, name string, message proto.Message) {
		if resources[typeURL] == nil {
			resources[typeURL] = map[string]proto.Message{}
		}
		resources[typeURL][name] = message
	}
	for item := range strings.FieldsSeq(items) {
		subject, targets, isScope := strings.Cut(item, ">")
		head, version, hasVersion := strings.Cut(subject, "/")
		if !hasVersion {
			version = "1"
		}
		if isScope {
			put(resourcev3.ScopedRouteType, head, Scope(head, version, targets))
			continue
		}
		prefix, name, hasPrefix := strings.Cut(head, ":")
		switch {
		case !hasPrefix:
			clusterVersion, endpointsVersion, differ := strings.Cut(version, ".")
			if !differ {
				endpointsVersion = clusterVersion
			}
			put(resourcev3.ClusterType, head, Cluster(head, clusterVersion, clusterv3.Cluster_EDS))
			put(resourcev3.EndpointType, head, Endpoints(head, endpointsVersion))
		case prefix == "static":
			put(resourcev3.ClusterType, name, Cluster(name, version, clusterv3.Cluster_STATIC))
		case prefix == "listener":
			put(resourcev3.ListenerType, name, listener(tb, name, version))
		case prefix == "demand":
			put(resourcev3.ListenerType, name, onDemand(tb, listener(tb, name, version)))
		case prefix == "secret":
			put(resourcev3.SecretType, name, secret(name, version))
		default:
			tb.Fatalf("unknown item %q", item)
		}
	}
	return resources
}

// Cluster returns a cluster. Version reads the version of each of these messages back.
func Cluster(name, version string, discovery clusterv3.Cluster_DiscoveryType) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		AltStatName:          version,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: discovery},
	}
}

// Endpoints returns the endpoints of a cluster.
func Endpoints(name, version string) *endpointv3.ClusterLoadAssignment {
	group := &endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Zone: version}}
	draining := &endpointv3.LbEndpoint{HealthStatus: corev3.HealthStatus_DRAINING}
	switch version {
	case NoneServing:
	case Queue:
		group.LbEndpoints = []*endpointv3.LbEndpoint{draining, {
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "@queue"}}},
			}},
		}}
	default:
		group.LbEndpoints = []*endpointv3.LbEndpoint{draining, {}}
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{group}}
}

// Scope returns a scope with a route to each of the targets, which are separated by commas.
func Scope(name, version, targets string) *routev3.ScopedRouteConfiguration {
	host := &routev3.VirtualHost{Name: name, RequestHeadersToRemove: []string{version}}
	for cluster := range strings.SplitSeq(targets, ",") {
		host.Routes = append(host.Routes, &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		}}})
	}
	return &routev3.ScopedRouteConfiguration{
		Name:               name,
		RouteConfiguration: &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{host}},
	}
}

func listener(tb testing.TB, name, version string) *listenerv3.Listener {
	tb.Helper()
	connections, err := anypb.New(&hcmv3.HttpConnectionManager{
		RouteSpecifier: &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{Name: name}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &listenerv3.Listener{
		Name:       name,
		StatPrefix: version,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: connections},
		}}}},
	}
}

// onDemand makes a listener request certificates by the names that clients send.
func onDemand(tb testing.TB, listener *listenerv3.Listener) *listenerv3.Listener {
	tb.Helper()
	config, err := anypb.New(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		CustomTlsCertificateSelector: &corev3.TypedExtensionConfig{Name: "on-demand"},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	listener.GetFilterChains()[0].TransportSocket = &corev3.TransportSocket{
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}
	return listener
}

func secret(name, version string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: version}},
	}}}
}

// Version returns the version of a message of this package. That of a scope ends with an apostrophe if its route
// configuration has another name than the scope.
func Version(tb testing.TB, message proto.Message) string {
	tb.Helper()
	switch m := message.(type) {
	case *clusterv3.Cluster:
		return m.GetAltStatName()
	case *endpointv3.ClusterLoadAssignment:
		return m.GetEndpoints()[0].GetLocality().GetZone()
	case *listenerv3.Listener:
		return m.GetStatPrefix()
	case *routev3.ScopedRouteConfiguration:
		version := m.GetRouteConfiguration().GetVirtualHosts()[0].GetRequestHeadersToRemove()[0]
		if m.GetRouteConfiguration().GetName() != m.GetName() {
			version += "'"
		}
		return version
	case *tlsv3.Secret:
		return m.GetTlsCertificate().GetCertificateChain().GetInlineString()
	}
	tb.Fatalf("unexpected message %T", message)
	return ""
}
