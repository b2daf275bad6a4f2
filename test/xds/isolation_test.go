package test

import (
	"fmt"
	"net"
	"slices"
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
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// forms are the values that api_type may have in a bootstrap.
func forms() []string { return []string{"DELTA_GRPC", "GRPC"} }

// fleet is a world of so many applications, each with a host, a cluster and
// endpoints named a0, a1 and so on.
type fleet struct {
	tb      testing.TB
	backend *net.TCPAddr
	world   map[string]map[string]proto.Message
	table   *routev3.RouteConfiguration
}

func newFleet(tb testing.TB, applications int) *fleet {
	tb.Helper()
	f := &fleet{
		tb: tb, backend: startBackend(tb), table: &routev3.RouteConfiguration{Name: "table"},
		world: map[string]map[string]proto.Message{resourcev3.ClusterType: {}, resourcev3.EndpointType: {}},
	}
	f.world[resourcev3.ListenerType] = map[string]proto.Message{"listener": f.listener()}
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
		f.world[resourcev3.ClusterType][m.GetName()] = m
	case *endpointv3.ClusterLoadAssignment:
		f.world[resourcev3.EndpointType][m.GetClusterName()] = m
	default:
		f.tb.Fatalf("what is a %T?", m)
	}
}

// host sets the virtual host of an application, to some clusters in equal parts.
func (f *fleet) host(n int, version string, clusters ...string) *routev3.VirtualHost {
	weighted := new(routev3.WeightedCluster)
	for _, cluster := range clusters {
		weighted.Clusters = append(weighted.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: cluster, Weight: wrapperspb.UInt32(1)})
	}
	host := &routev3.VirtualHost{
		Name: fmt.Sprintf("a%d", n), Domains: []string{fmt.Sprintf("a%d.test", n)},
		RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-version", Value: version}}},
		Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}}},
		}},
	}
	table := &routev3.RouteConfiguration{Name: "table", VirtualHosts: append([]*routev3.VirtualHost{}, f.table.GetVirtualHosts()...)}
	if n == len(table.GetVirtualHosts()) {
		table.VirtualHosts = append(table.VirtualHosts, host)
	}
	table.VirtualHosts[n] = host
	f.table = table
	f.world[resourcev3.RouteType] = map[string]proto.Message{"table": table}
	return host
}

func (f *fleet) cluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}},
	}
}

func (f *fleet) endpoints(name, address string, port int) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(address, port)}}}},
	}}}
}

func (f *fleet) listener() *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: "listener", Address: socket("127.0.0.1", 0),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.pack(&hcmv3.HttpConnectionManager{
				StatPrefix: "http",
				RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "table", ConfigSource: &corev3.ConfigSource{
					ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
				}}},
				HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.pack(&routerv3.Router{})}}},
			})},
		}}}},
	}
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

// publish publishes the fleet's world and waits until the one proxy has ACKed all
// of it, but for what it refuses.
func (f *fleet) publish(server *xds.Server, refused ...xds.Refusal) {
	f.tb.Helper()
	for typeURL, messages := range f.world {
		for name, message := range messages {
			if err := message.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
				f.tb.Fatalf("%s %s isn't valid: %v", typeURL, name, err)
			}
		}
	}
	if err := server.Publish(f.world); err != nil {
		f.tb.Fatal(err)
	}
	want := make([]string, 0, len(refused))
	for _, r := range refused {
		want = append(want, r.TypeURL+" "+r.Resource+" "+r.VirtualHost)
	}
	slices.Sort(want)
	var last string
	defer func() {
		if f.tb.Failed() {
			f.tb.Logf("the book: %s", last)
		}
	}()
	testkit.Eventually(f.tb, patience, "all is ACKed but for what is refused", func() bool {
		book := server.Book()
		if len(book) != 1 {
			return false
		}
		behind := f.behind(server, book[0])
		last = fmt.Sprintf("behind %q, refused %+v", behind[:min(len(behind), 10)], book[0].Refused)
		return slices.Equal(want, behind) && cmp.Equal(refused, book[0].Refused, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(xds.Refusal{}, "Message"))
	})
}

// behind names what the proxy hasn't ACKed as it is published: resources, and
// virtual hosts of the table.
func (f *fleet) behind(server *xds.Server, report xds.StreamReport) []string {
	var behind []string
	for typeURL := range f.world {
		for name, version := range server.Versions(typeURL) {
			resource := report.Resources[typeURL][name]
			switch {
			case resource.InSync && typeURL == resourcev3.RouteType:
				for _, host := range resource.Unconfirmed {
					behind = append(behind, typeURL+" "+name+" "+host)
				}
			case !resource.InSync || resource.Acked != version:
				behind = append(behind, typeURL+" "+name+" ")
			}
		}
	}
	slices.Sort(behind)
	return behind
}

// TestEnvoyRefusesOneOfAThousand poisons one application in each way that passes
// the validation of the messages. Its last good version stays in force, the other
// 999 get through in the same world and in the next.
func TestEnvoyRefusesOneOfAThousand(t *testing.T) {
	const applications = 1000
	for _, form := range forms() {
		t.Run(form, func(t *testing.T) {
			f := newFleet(t, applications)
			server, port, _ := startServer(t, 0)
			if err := server.Publish(f.world); err != nil {
				t.Fatal(err)
			}
			envoy := startProxy(t, form, port)
			f.publish(server)

			poisoned := f.host(500, "2", "a500")
			poisoned.GetRoutes()[0].Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "("}}}
			for n := range applications {
				if n != 500 {
					f.host(n, "2", fmt.Sprintf("a%d", n))
				}
			}
			refusedHost := xds.Refusal{TypeURL: resourcev3.RouteType, Resource: "table", VirtualHost: "a500", Retained: true}
			f.publish(server, refusedHost)
			check(t, envoy, map[string]string{"a0.test": "2", "a499.test": "2", "a500.test": "1", "a501.test": "2", "a999.test": "2"})
			f.host(7, "3", "a7")
			f.publish(server, refusedHost)
			check(t, envoy, map[string]string{"a7.test": "3", "a500.test": "1"})
			t.Logf("after the virtual host: %s", envoy.stats())

			cluster := f.cluster("a600")
			cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
				TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "unknown", TypedConfig: f.pack(&routerv3.Router{})},
			}}}
			for n := range applications {
				changed := f.cluster(fmt.Sprintf("a%d", n))
				changed.AltStatName = fmt.Sprintf("b%d", n)
				f.put(changed)
			}
			f.put(cluster)
			refusedCluster := xds.Refusal{TypeURL: resourcev3.ClusterType, Resource: "a600", Retained: true}
			f.publish(server, refusedCluster, refusedHost)
			again := f.cluster("a8")
			again.AltStatName = "c8"
			f.put(again)
			f.publish(server, refusedCluster, refusedHost)
			t.Logf("after the cluster: %s", envoy.stats())

			for n := range applications {
				address := f.backend.IP.String()
				if n == 700 {
					address = "not-an-address"
				}
				changed := f.endpoints(fmt.Sprintf("a%d", n), address, f.backend.Port)
				changed.Endpoints[0].LbEndpoints[0].HealthStatus = corev3.HealthStatus_HEALTHY
				f.put(changed)
			}
			refusedEndpoints := xds.Refusal{TypeURL: resourcev3.EndpointType, Resource: "a700", Retained: true}
			f.publish(server, refusedCluster, refusedEndpoints, refusedHost)
			f.put(f.endpoints("a9", f.backend.IP.String(), f.backend.Port))
			f.host(9, "4", "a9")
			f.publish(server, refusedCluster, refusedEndpoints, refusedHost)
			check(t, envoy, map[string]string{"a9.test": "4", "a500.test": "1", "a600.test": "2", "a700.test": "2", "a999.test": "2"})
			t.Logf("after the endpoints: %s", envoy.stats())

			f.host(500, "5", "a500")
			f.put(f.cluster("a600"))
			f.put(f.endpoints("a700", f.backend.IP.String(), f.backend.Port))
			f.publish(server)
			check(t, envoy, map[string]string{"a500.test": "5"})
		})
	}
}

// check wants these versions of virtual hosts in force.
func check(t *testing.T, envoy *proxy, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for host := range want {
		got[host] = envoy.version(host)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions in force (-want +got):\n%s", diff)
	}
}

// TestEnvoyIsPoisonedFromTheStart has a fresh Envoy refuse part of the first
// world that it ever gets.
func TestEnvoyIsPoisonedFromTheStart(t *testing.T) {
	for _, form := range forms() {
		t.Run(form, func(t *testing.T) {
			f := newFleet(t, 100)
			f.host(50, "1", "a50").GetRoutes()[0].Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "("}}}
			cluster := f.cluster("a60")
			cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
				TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "unknown", TypedConfig: f.pack(&routerv3.Router{})},
			}}}
			f.put(cluster)
			server, port, _ := startServer(t, 0)
			if err := server.Publish(f.world); err != nil {
				t.Fatal(err)
			}
			envoy := startProxy(t, form, port)
			testkit.Eventually(t, patience, "all good ones are confirmed, and the bad ones named", func() bool {
				book := server.Book()
				if len(book) != 1 {
					return false
				}
				want := []xds.Refusal{
					{TypeURL: resourcev3.ClusterType, Resource: "a60"},
					{TypeURL: resourcev3.RouteType, Resource: "table", VirtualHost: "a50"},
				}
				return cmp.Equal(want, book[0].Refused, cmpopts.IgnoreFields(xds.Refusal{}, "Message")) &&
					cmp.Equal([]string{"a50", "a60"}, book[0].Resources[resourcev3.RouteType]["table"].Unconfirmed)
			})
			check(t, envoy, map[string]string{"a0.test": "1", "a49.test": "1", "a59.test": "1", "a99.test": "1"})
		})
	}
}

// rate is how many requests a second, at most, meet the restarts of the server, of which there are so many.
const rate, restarts = 1000, 5

// versions are those that a host has in turn.
func versions() []string {
	versions := []string{"1"}
	for round := range restarts {
		versions = append(versions, fmt.Sprintf("%d stable", round), fmt.Sprintf("%d canary", round))
	}
	return versions
}

// TestEnvoyReturnsWithoutAGap kills the server, has a canary leave the world, and
// starts another server, all under load: no request may fail.
func TestEnvoyReturnsWithoutAGap(t *testing.T) {
	for _, form := range forms() {
		t.Run(form, func(t *testing.T) {
			f := newFleet(t, 50)
			server, port, stop := startServer(t, 0)
			f.put(f.cluster("canary"))
			f.put(f.endpoints("canary", f.backend.IP.String(), f.backend.Port))
			f.host(0, "1", "a0", "canary")
			if err := server.Publish(f.world); err != nil {
				t.Fatal(err)
			}
			envoy := startProxy(t, form, port)
			f.publish(server)

			load := traffic.Start(t, envoy.address, "a0.test", rate, versions()...)
			for round := range restarts {
				stop()
				delete(f.world[resourcev3.ClusterType], "canary")
				delete(f.world[resourcev3.EndpointType], "canary")
				f.host(0, fmt.Sprintf("%d stable", round), "a0")
				server, _, stop = startServer(t, port, xds.WithGrace(200*time.Millisecond))
				f.publish(server)
				f.put(f.cluster("canary"))
				f.put(f.endpoints("canary", f.backend.IP.String(), f.backend.Port))
				f.host(0, fmt.Sprintf("%d canary", round), "a0", "canary")
				f.publish(server)
			}
			load.Stop()
		})
	}
}
