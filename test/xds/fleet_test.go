package test

import (
	"fmt"
	"net"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// apiTypes returns the values of api_type in a bootstrap.
func apiTypes() []string { return []string{"DELTA_GRPC", "GRPC"} }

// fleet is the desired resources of a number of applications, each with a host, a cluster and endpoints named a0, a1
// and so on.
type fleet struct {
	tb      testing.TB
	backend *net.TCPAddr
	desired map[string]map[string]proto.Message
}

func newFleet(tb testing.TB, applications int) *fleet {
	tb.Helper()
	f := &fleet{
		tb: tb, backend: startBackend(tb), desired: map[string]map[string]proto.Message{
			resourcev3.ClusterType: {}, resourcev3.EndpointType: {}, resourcev3.ScopedRouteType: {},
		},
	}
	f.desired[resourcev3.ListenerType] = map[string]proto.Message{"listener": f.listener()}
	for n := range applications {
		name := fmt.Sprintf("a%d", n)
		f.put(f.cluster(name))
		f.put(f.endpoints(name, f.backend.IP.String(), f.backend.Port))
		f.host(n, "1", name)
	}
	return f
}

// put sets a cluster or its endpoints.
func (f *fleet) put(message proto.Message) {
	switch m := message.(type) {
	case *clusterv3.Cluster:
		f.desired[resourcev3.ClusterType][m.GetName()] = m
	case *endpointv3.ClusterLoadAssignment:
		f.desired[resourcev3.EndpointType][m.GetClusterName()] = m
	default:
		f.tb.Fatalf("unexpected message %T", m)
	}
}

// host sets the scope of an application, to some clusters of equal weight, and returns its route.
func (f *fleet) host(n int, version string, clusters ...string) *routev3.Route {
	weighted := new(routev3.WeightedCluster)
	for _, cluster := range clusters {
		weighted.Clusters = append(
			weighted.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: cluster, Weight: wrapperspb.UInt32(1)},
		)
	}
	route := &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{
			Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted},
			},
		},
	}
	name := fmt.Sprintf("a%d.test", n)
	f.desired[resourcev3.ScopedRouteType][name] = &routev3.ScopedRouteConfiguration{
		Name: name,
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
			Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: name},
		}}},
		RouteConfiguration: &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
			Name: name, Domains: []string{"*"}, Routes: []*routev3.Route{route},
			RequestHeadersToAdd: []*corev3.HeaderValueOption{
				{Header: &corev3.HeaderValue{Key: "x-version", Value: version}},
			},
		}}},
	}
	return route
}

// makeInvalid makes a route invalid in a way that only Envoy detects: the validation of the message accepts it.
func makeInvalid(route *routev3.Route) {
	route.Match = &routev3.RouteMatch{
		PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "("}},
	}
}

func (f *fleet) cluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{
				Ads: &corev3.AggregatedConfigSource{},
			},
		}},
	}
}

func (f *fleet) endpoints(name, address string, port int) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(address, port)}},
		}},
	}}}
}

func (f *fleet) listener() *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: "listener", Address: socket("127.0.0.1", 0),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.pack(&hcmv3.HttpConnectionManager{
				StatPrefix:     "http",
				RouteSpecifier: f.scopedRoutes(),
				HttpFilters: []*hcmv3.HttpFilter{
					{
						Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{
							TypedConfig: f.pack(&routerv3.Router{}),
						},
					},
				},
			})},
		}}}},
	}
}

// scopedRoutes selects the scope by the Host header.
func (f *fleet) scopedRoutes() *hcmv3.HttpConnectionManager_ScopedRoutes {
	source := &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{
			Ads: &corev3.AggregatedConfigSource{},
		},
	}
	return &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
		Name: "scopes",
		ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
			Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
				HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
					Name: ":authority", ElementSeparator: ":",
					ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{},
				},
			},
		}}},
		RdsConfigSource: source,
		ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: source}},
	}}
}

func (f *fleet) pack(message proto.Message) *anypb.Any {
	f.tb.Helper()
	packed, err := anypb.New(message)
	if err != nil {
		f.tb.Fatal(err)
	}
	return packed
}

func socket(address string, port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}
