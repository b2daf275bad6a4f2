package translate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// A request for a backend that ir.Held names is held by Envoy itself: the filter HoldName asks the
// interceptor about it (ext_authz over gRPC), and goes on when that answers. The answer waits until
// there is an endpoint. No byte of a body is read meanwhile but for a window, and none goes through
// the interceptor.
//
//   - A route, or one side of a canary, is armed by a configuration of the filter on it. It says nothing
//     but that the filter runs: whose request it is, the call itself says (ClusterKey).
//   - Envoy makes up the filters of a request when it has its first route, and drops from them what that
//     route disables. A request in another spelling, or for a wildcard, has no route then: the filter
//     is on unless a route says otherwise.
//   - So an exact host says so twice. Its virtual host disables the filter: a request that finds the host
//     at once never meets it. The level above has a configuration that lets everything pass, for
//     a request that comes by the fallback and has the filter already. Envoy looks
//     for a configuration at the more specific level first, and a filter that is disabled there has none.
//   - The net is a second listener, which only the proxy itself reaches. While nothing of a held backend
//     is ready, the net is its one endpoint. It catches requests that come to the backend
//     without having been held: a worker of Envoy may have a route, or a list of endpoints, that is
//     older than what Envoy has acknowledged. In the net everything is held, and then goes the same way again.
const (
	// HoldName is the name of the filter that holds requests, of the cluster that it asks, and of the net.
	HoldName = "kedify-hold"
	// NetName is the name of the filter of the net, which no route can disable.
	NetName = "kedify-net"
	// ClusterKey is the metadata of a call that names the cluster which the request is for. No client has a say in it.
	ClusterKey = "x-kedify-cluster"
	// NetKey is in the metadata of calls from the net.
	NetKey = "x-kedify-net"
	// DefaultNetSocket is the socket of the net: an abstract one, which needs neither a port nor a file
	// system, and can be reached from within the proxy's Pod only.
	DefaultNetSocket = "@kedify-hold"
)

const (
	// MaxHold is the longest time that a request can be held: silence counts as idle meanwhile, and
	// a request that is idle for longer than streamIdleTimeout is ended by Envoy.
	MaxHold = streamIdleTimeout - 5*time.Minute
	// holdCallTimeout bounds one call. The answer has a deadline of its own, which is shorter.
	holdCallTimeout = streamIdleTimeout
	// holdRetryPause is the pause before a call is made again that broke, because the interceptor went away. It
	// doubles each time. holdRetries is any number that is never reached.
	holdRetryPause = 100 * time.Millisecond
	holdRetries    = 1_000_000
	// holdBreaker is far above what a proxy may hold, and holdConnections far above what its workers open.
	holdBreaker, holdConnections = 100_000, 1000
	// holdConnectTimeout bounds a connection attempt to the interceptor; holdPing and holdPingTimeout find one that hangs.
	holdConnectTimeout = 2 * time.Second
	// netMargin is what is left for the app of the time to the headers of the response.
	netMargin       = 2 * time.Second
	holdPing        = 10 * time.Second
	holdPingTimeout = 5 * time.Second
)

// Hold says how requests are held. The zero value holds none, and then Envoy answers 503.
type Hold struct {
	// Checks is where this replica of the interceptor answers the calls: its own address, since only the
	// replica that a proxy gets its configuration from knows what the proxy has acknowledged.
	Checks netip.AddrPort
	// NetSocket is the path of the net's socket, DefaultNetSocket if it is empty.
	NetSocket string
}

// Patience is how long a request is held: as long as its object's timeouts say, or else standard, and
// MaxHold at most. caught is that of one in the net, for which the time to the headers of the response has
// begun.
func Patience(timeouts model.Timeouts, standard time.Duration) (held, caught time.Duration) {
	held = min(cmp.Or(timeouts.ColdStart, standard), MaxHold)
	within := cmp.Or(timeouts.ResponseHeader, responseHeaderTimeout)
	return held, min(held, max(within-netMargin, within/2)) //nolint:mnd // Half of a time that is short.
}

// isOn says whether requests are held.
func (h Hold) isOn() bool { return h.Checks.IsValid() }

// netAddress is where the net listens.
func (h Hold) netAddress() *corev3.Address {
	path := h.NetSocket
	if path == "" {
		path = DefaultNetSocket
	}
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// holdMarks are the configurations of the filter on routes. All are nil when nothing is held.
type holdMarks struct {
	armed    map[string]*anypb.Any // on a route, or one side of a canary, whose requests are held
	passing  *anypb.Any            // where requests may have the filter although they aren't held
	disabled *anypb.Any            // where they needn't
}

// newHoldMarks makes them.
func newHoldMarks(hold Hold, disabled *anypb.Any) (holdMarks, error) {
	if !hold.isOn() {
		return holdMarks{}, nil
	}
	armed, err := pack(&extauthzv3.ExtAuthzPerRoute{
		Override: &extauthzv3.ExtAuthzPerRoute_CheckSettings{CheckSettings: &extauthzv3.CheckSettings{}},
	})
	if err != nil {
		return holdMarks{}, err
	}
	passing, err := pack(&extauthzv3.ExtAuthzPerRoute{Override: &extauthzv3.ExtAuthzPerRoute_Disabled{Disabled: true}})
	return holdMarks{armed: map[string]*anypb.Any{HoldName: armed}, passing: passing, disabled: disabled}, err
}

// markExact marks the scope of an exact host, and markWildcards that of the wildcards.
func (m holdMarks) markExact(scope *routev3.ScopedRouteConfiguration, others map[string]*anypb.Any) {
	routes := scope.GetRouteConfiguration()
	if m.armed == nil {
		routes.TypedPerFilterConfig = others
		return
	}
	configs := map[string]*anypb.Any{HoldName: m.passing}
	maps.Copy(configs, others)
	routes.TypedPerFilterConfig = configs
	for _, host := range routes.GetVirtualHosts() {
		host.TypedPerFilterConfig = map[string]*anypb.Any{HoldName: m.disabled}
	}
}

func (m holdMarks) markWildcards(scope *routev3.ScopedRouteConfiguration) {
	if m.armed != nil {
		scope.GetRouteConfiguration().TypedPerFilterConfig = map[string]*anypb.Any{HoldName: m.passing}
	}
}

// holdFilter asks the interceptor. All that it tells of a request is the method, the host and the path,
// the header by which a browser is known, and the cluster that the request is for.
//
//   - A call that breaks is made again, so a held request outlives the interceptor.
//   - The maximum of a gRPC service's back-off is also the time limit of each attempt, so it has to be above
//     any time that a request is held.
func holdFilter(name string, extra ...*corev3.HeaderValue) (*hcmv3.HttpFilter, error) {
	config, err := pack(&extauthzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3,
		StatPrefix:          name,
		Services: &extauthzv3.ExtAuthz_GrpcService{GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: HoldName}},
			Timeout:         durationpb.New(holdCallTimeout),
			InitialMetadata: append(extra, &corev3.HeaderValue{Key: ClusterKey, Value: "%UPSTREAM_CLUSTER%"}),
			RetryPolicy: &corev3.RetryPolicy{
				RetryOn:    "connect-failure,reset,refused-stream,unavailable,cancelled",
				NumRetries: wrapperspb.UInt32(holdRetries),
				RetryBackOff: &corev3.BackoffStrategy{
					BaseInterval: durationpb.New(holdRetryPause),
					MaxInterval:  durationpb.New(holdCallTimeout),
				},
			},
		}},
		ClearRouteCache: true, // only by an answer that changes a header of the request: see FailoverKey
		StatusOnError:   &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		AllowedHeaders:  &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{exactly("accept")}},
	})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}, nil
}

// exactly matches one text.
func exactly(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: text}}
}

// holdCluster is where the filter's calls go.
func holdCluster() (*clusterv3.Cluster, error) {
	options, err := pack(&upstreamhttpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
						Interval: durationpb.New(holdPing), Timeout: durationpb.New(holdPingTimeout),
					}},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	cluster := &clusterv3.Cluster{
		Name:                 HoldName,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			EdsConfig: aggregated(endpointPatience), ServiceName: HoldName,
		},
		ConnectTimeout: durationpb.New(holdConnectTimeout),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections:     wrapperspb.UInt32(holdConnections),
			MaxPendingRequests: wrapperspb.UInt32(holdBreaker),
			MaxRequests:        wrapperspb.UInt32(holdBreaker),
			MaxRetries:         wrapperspb.UInt32(holdBreaker),
		}}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptionsKey: options},
	}
	return cluster, validate(cluster)
}

// holdAssignment is the endpoint of that cluster.
func (h Hold) holdAssignment() (*endpointv3.ClusterLoadAssignment, error) {
	return loadAssignment(HoldName, model.Endpoints{Ready: []netip.AddrPort{h.Checks}})
}

// netAssignment has the net take new requests in place of an app's endpoints. Those that are draining
// keep what they have.
func (h Hold) netAssignment(name string, endpoints model.Endpoints) (*endpointv3.ClusterLoadAssignment, error) {
	group := &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{
		HealthStatus: corev3.HealthStatus_HEALTHY,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: h.netAddress()},
		},
		Metadata: inClearText(),
	}}}
	for _, at := range endpoints.Draining {
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(at, corev3.HealthStatus_DRAINING))
	}
	assignment := &endpointv3.ClusterLoadAssignment{
		ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{group},
	}
	return assignment, validate(assignment)
}

// netListener is the net. A request comes from the first listener as that has made it: nothing about
// the client is found out, added or logged a second time.
func (o Options) netListener() (*listenerv3.Listener, error) {
	early, err := scopeHeader()
	if err != nil {
		return nil, err
	}
	net, err := holdFilter(NetName, &corev3.HeaderValue{Key: NetKey, Value: "1"})
	if err != nil {
		return nil, err
	}
	filters, err := httpFilters(net)
	if err != nil {
		return nil, err
	}
	config, err := pack(&hcmv3.HttpConnectionManager{
		CodecType:                     hcmv3.HttpConnectionManager_AUTO,
		StatPrefix:                    HoldName,
		EarlyHeaderMutationExtensions: early,
		RouteSpecifier:                scopedRoutes(),
		HttpFilters:                   filters,
		UpgradeConfigs:                []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		Http2ProtocolOptions:          http2Options(),
		StreamIdleTimeout:             durationpb.New(streamIdleTimeout),
		UseRemoteAddress:              wrapperspb.Bool(false),
		SkipXffAppend:                 true,
		GenerateRequestId:             wrapperspb.Bool(false),
		PreserveExternalRequestId:     true,
		NormalizePath:                 wrapperspb.Bool(true),
		InternalAddressConfig:         &hcmv3.HttpConnectionManager_InternalAddressConfig{},
		ServerHeaderTransformation:    hcmv3.HttpConnectionManager_PASS_THROUGH,
		LocalReplyConfig:              localReplies(),
	})
	if err != nil {
		return nil, err
	}
	listener := &listenerv3.Listener{
		Name:    HoldName,
		Address: o.Hold.netAddress(),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
		}}}},
	}
	return listener, validate(listener)
}

// addHold adds what holding needs whatever the Config.
func (o Options) addHold(out Update) error {
	if !o.Hold.isOn() {
		return nil
	}
	listener, err := o.netListener()
	if err != nil {
		return fmt.Errorf("listener %s: %w", HoldName, err)
	}
	cluster, err := holdCluster()
	if err != nil {
		return fmt.Errorf("cluster %s: %w", HoldName, err)
	}
	assignment, err := o.Hold.holdAssignment()
	if err != nil {
		return fmt.Errorf("load assignment %s: %w", HoldName, err)
	}
	out.addStatic(listener, cluster, assignment)
	return nil
}
