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

// Envoy itself queues the requests for a backend that model.WaitsForEndpoint names. The filter HoldName calls the
// interceptor (ext_authz over gRPC) and continues when the interceptor responds, which is when there is an endpoint.
// Meanwhile only the flow control window of a body is read, and no byte of it passes through the interceptor.
//
//   - A per-route configuration of the filter enables it on a route, or on one cluster of a traffic split. It
//     contains no data: the call itself contains the cluster of the request (ClusterKey).
//   - Envoy creates the filters of a request when it selects the first route, and drops those that the route
//     disables. A request with another spelling of the host, or for a wildcard, has no route at that time. The filter
//     is therefore enabled unless a route disables it.
//   - An exact host disables the filter twice. Its virtual host disables the filter completely for requests that
//     match the host directly. The route configuration lets every request pass, for requests that match by the scope
//     fallback filter and already have the filter. Envoy uses the most specific configuration, and a filter that is
//     disabled there does not exist.
//   - The fallback listener is a second listener that only the proxy itself can reach. While a queued backend has no
//     ready endpoint, the fallback listener is its only endpoint. It receives requests that reach the backend without
//     having been queued. These exist because a worker of Envoy may use routes or endpoints that are older than the
//     acknowledged ones. The fallback listener queues every request and then routes it again.
const (
	// HoldName is the name of the filter that queues requests, of the cluster of the interceptor, and of the fallback
	// listener.
	HoldName = "kedify-hold"
	// HoldFallbackName is the name of the filter of the fallback listener, which no route can disable.
	HoldFallbackName = "kedify-net"
	// ClusterKey is the metadata of a call with the cluster of the request. Clients cannot set it.
	ClusterKey = "x-kedify-cluster"
	// HoldFallbackKey is in the metadata of calls from the fallback listener.
	HoldFallbackKey = "x-kedify-net"
	// DefaultHoldSocket is the default socket of the fallback listener: an abstract one, which needs neither a port
	// nor a file system. It is reachable only from within the proxy's Pod.
	DefaultHoldSocket = "@kedify-hold"
)

const (
	// MaxHold is the maximum time in the queue. A queued request counts as idle, and Envoy ends a request that is
	// idle for longer than streamIdleTimeout.
	MaxHold = streamIdleTimeout - 5*time.Minute
	// holdCallTimeout is the timeout of one call. The response has its own, shorter deadline.
	holdCallTimeout = streamIdleTimeout
	// holdRetryPause is the pause before a failed call is retried, for example after a restart of the interceptor. It
	// doubles with each retry. holdRetries is effectively unlimited.
	holdRetryPause = 100 * time.Millisecond
	holdRetries    = 1_000_000
	// holdBreaker is far above the number of requests that a proxy may queue, and holdConnections far above the
	// number of connections that its workers open.
	holdBreaker, holdConnections = 100_000, 1000
	// HoldStreams is the number of calls on one connection to the interceptor, which accepts no more. More calls use more
	// connections.
	HoldStreams = 100
	// holdConnectTimeout is the timeout of a connection attempt to the interceptor. holdPing and holdPingTimeout
	// detect a connection that hangs.
	holdConnectTimeout = 2 * time.Second
	// fallbackMargin is the part of a timeout of the response that remains for the workload.
	fallbackMargin  = 2 * time.Second
	holdPing        = 10 * time.Second
	holdPingTimeout = 5 * time.Second
)

// Hold configures how requests are queued. The zero value disables queueing; Envoy then answers 503.
type Hold struct {
	// Checks is the address of the calls. It is this replica's own address, because only the replica that configures
	// a proxy has the proxy's ACKs.
	Checks netip.AddrPort
	// CA are the CAs in PEM that sign the certificate of the interceptor, and Name is the DNS name in it. Proxies call
	// the interceptor by TLS and verify both. An empty CA means calls without TLS.
	CA, Name string
	// Socket is the socket path of the fallback listener; "" means DefaultHoldSocket.
	Socket string
}

// HoldTimeouts returns the maximum time in the queue of a Route. It is the time of the failover, if it has one, else
// the object's own timeout or defaultTimeout. It is at most MaxHold, which 0 means, too. fallbackTimeout applies to
// requests in the fallback listener, for which the timeouts of the response are already running.
func HoldTimeouts(route model.Route, defaultTimeout time.Duration) (timeout, fallbackTimeout time.Duration) {
	own := cmp.Or(route.Timeouts.ColdStart, model.TimeoutOf(defaultTimeout))
	if route.Failover != nil && route.Failover.Timeout > 0 {
		own = model.TimeoutOf(route.Failover.Timeout)
	}
	timeout = min(cmp.Or(own.Value, MaxHold), MaxHold)
	fallbackTimeout = timeout
	for _, limit := range []time.Duration{responseHeaderTimeout(route), requestTimeout(route), idleTimeout(route)} {
		if limit > 0 {
			const half = 2 // of a short limit
			fallbackTimeout = min(fallbackTimeout, max(limit-fallbackMargin, limit/half))
		}
	}
	return timeout, fallbackTimeout
}

// isEnabled reports whether requests are queued.
func (h Hold) isEnabled() bool { return h.Checks.IsValid() }

// fallbackAddress returns the address of the fallback listener.
func (h Hold) fallbackAddress() *corev3.Address {
	path := h.Socket
	if path == "" {
		path = DefaultHoldSocket
	}
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// holdConfigs are the per-route configurations of the filter. All are nil if queueing is disabled.
type holdConfigs struct {
	hold     map[string]*anypb.Any // for a route or a cluster with queued requests
	bypass   *anypb.Any            // for requests that have the filter but are not queued
	disabled *anypb.Any            // for requests that do not need the filter
}

// newHoldConfigs creates the configurations.
func newHoldConfigs(hold Hold, disabled *anypb.Any) (holdConfigs, error) {
	if !hold.isEnabled() {
		return holdConfigs{}, nil
	}
	enabled, err := pack(&extauthzv3.ExtAuthzPerRoute{
		Override: &extauthzv3.ExtAuthzPerRoute_CheckSettings{CheckSettings: &extauthzv3.CheckSettings{}},
	})
	if err != nil {
		return holdConfigs{}, err
	}
	bypass, err := pack(&extauthzv3.ExtAuthzPerRoute{Override: &extauthzv3.ExtAuthzPerRoute_Disabled{Disabled: true}})
	return holdConfigs{hold: map[string]*anypb.Any{HoldName: enabled}, bypass: bypass, disabled: disabled}, err
}

// applyExact configures the scope of an exact host, and applyWildcards the scope of the wildcards.
func (m holdConfigs) applyExact(scope *routev3.ScopedRouteConfiguration, others map[string]*anypb.Any) {
	routes := scope.GetRouteConfiguration()
	if m.hold == nil {
		routes.TypedPerFilterConfig = others
		return
	}
	configs := map[string]*anypb.Any{HoldName: m.bypass}
	maps.Copy(configs, others)
	routes.TypedPerFilterConfig = configs
	for _, host := range routes.GetVirtualHosts() {
		host.TypedPerFilterConfig = map[string]*anypb.Any{HoldName: m.disabled}
	}
}

func (m holdConfigs) applyWildcards(scope *routev3.ScopedRouteConfiguration) {
	if m.hold != nil {
		scope.GetRouteConfiguration().TypedPerFilterConfig = map[string]*anypb.Any{HoldName: m.bypass}
	}
}

// holdFilter returns the filter that calls the interceptor. A call contains only the method, host and path of the
// request, the header Accept, by which browsers are detected, and the cluster.
//
//   - A failed call is retried, so that a queued request survives a restart of the interceptor.
//   - The maximum back-off of a gRPC service is also the timeout of each attempt. It must exceed the maximum time in
//     the queue.
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
		ClearRouteCache: true, // Only a response that changes a header does so, see FailoverKey.
		StatusOnError:   &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		AllowedHeaders:  &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{exactString("accept")}},
	})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}, nil
}

// exactString matches one string exactly.
func exactString(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: text}}
}

// holdCluster returns the cluster of the filter's calls.
func (h Hold) holdCluster() (*clusterv3.Cluster, error) {
	options, err := pack(&upstreamhttpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
						MaxConcurrentStreams: wrapperspb.UInt32(HoldStreams),
						ConnectionKeepalive: &corev3.KeepaliveSettings{
							Interval: durationpb.New(holdPing), Timeout: durationpb.New(holdPingTimeout),
						},
					},
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
			EdsConfig: adsSource(endpointTimeout), ServiceName: HoldName,
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
	if h.CA != "" {
		if cluster.TransportSocket, err = interceptorTLS(h.CA, h.Name); err != nil {
			return nil, err
		}
	}
	return cluster, validate(cluster)
}

// interceptorAssignment returns the endpoint of that cluster.
func (h Hold) interceptorAssignment() (*endpointv3.ClusterLoadAssignment, error) {
	return loadAssignment(HoldName, model.Endpoints{Ready: []netip.AddrPort{h.Checks}})
}

// fallbackAssignment replaces the endpoints of a workload by the fallback listener for new requests. Draining
// endpoints keep their requests.
func (h Hold) fallbackAssignment(name string, endpoints model.Endpoints) (*endpointv3.ClusterLoadAssignment, error) {
	group := &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{
		HealthStatus: corev3.HealthStatus_HEALTHY,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: h.fallbackAddress()},
		},
		Metadata: plaintextMetadata(),
	}}}
	for _, at := range notInPanic(endpoints.Draining, 1) {
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(at, corev3.HealthStatus_DRAINING))
	}
	assignment := &endpointv3.ClusterLoadAssignment{
		ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{group},
	}
	return assignment, validate(assignment)
}

// fallbackListener returns the fallback listener. Its requests were already processed by the first listener, so it
// neither detects the client nor adds headers nor logs. Its client is that of the first listener, which has appended
// its peer to X-Forwarded-For.
func (o Options) fallbackListener() (*listenerv3.Listener, error) {
	early, err := earlyHeaders()
	if err != nil {
		return nil, err
	}
	filters, err := fallbackFilters()
	if err != nil {
		return nil, err
	}
	manager := commonManager(HoldName, fallbackLimits())
	manager.EarlyHeaderMutationExtensions = early
	manager.HttpFilters = filters
	manager.UseRemoteAddress = wrapperspb.Bool(false)
	manager.XffNumTrustedHops = o.TrustedHops
	manager.SkipXffAppend = true
	manager.GenerateRequestId = wrapperspb.Bool(false)
	if err := o.Tracing.apply(manager); err != nil {
		return nil, err
	}
	config, err := pack(manager)
	if err != nil {
		return nil, err
	}
	listener := &listenerv3.Listener{
		Name:    HoldName,
		Address: o.Hold.fallbackAddress(),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
		}}}},
	}
	return listener, validate(listener)
}

// fallbackFilters returns the filters of the fallback listener.
func fallbackFilters() ([]*hcmv3.HttpFilter, error) {
	probe, err := probeFilter()
	if err != nil {
		return nil, err
	}
	hold, err := holdFilter(HoldFallbackName, &corev3.HeaderValue{Key: HoldFallbackKey, Value: "1"})
	if err != nil {
		return nil, err
	}
	filters, err := httpFilters(hold)
	return append([]*hcmv3.HttpFilter{probe}, filters...), err
}

// addHold adds the static resources for queueing.
func (o Options) addHold(out Update) error {
	if !o.Hold.isEnabled() {
		return nil
	}
	listener, err := o.fallbackListener()
	if err != nil {
		return fmt.Errorf("listener %s: %w", HoldName, err)
	}
	cluster, err := o.Hold.holdCluster()
	if err != nil {
		return fmt.Errorf("cluster %s: %w", HoldName, err)
	}
	assignment, err := o.Hold.interceptorAssignment()
	if err != nil {
		return fmt.Errorf("load assignment %s: %w", HoldName, err)
	}
	out.addStatic(listener, cluster, assignment)
	return nil
}
