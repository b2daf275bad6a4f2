package translate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// connectTimeout is the timeout of a connection attempt to a Pod. A Pod that has disappeared, or is on a failed
	// node, does not answer at all, and the request waits this long before it is retried on another Pod. Linux repeats
	// a lost SYN after a second (RFC 6298), so one may be lost.
	connectTimeout = 2 * time.Second
	// tlsConnectTimeout is the same for TLS, whose handshake it includes. A Pod that has just started may be slow.
	tlsConnectTimeout = 5 * time.Second
	// upstreamIdleTimeout is the idle timeout of a connection to a Pod. It is shorter than the 5 s of Node.js, the
	// shortest among common servers: a request on a connection that the server is closing would fail, and is not
	// retried.
	upstreamIdleTimeout = 4 * time.Second
	// endpointTimeout is how long Envoy delays a new cluster, and its own start, until the cluster's endpoints
	// arrive. They follow directly after the cluster. The timeout expires only after a failure, which should then
	// affect one cluster instead of the whole proxy.
	endpointTimeout = 15 * time.Second
	// panicPercent is the percentage of healthy endpoints below which Envoy uses all endpoints of a cluster. Envoy
	// truncates it to a whole number, and 0 disables panic mode.
	panicPercent = 1
	// mirrorTimeout is the default of model.RouteSettings.MirrorTimeout.
	mirrorTimeout = 30 * time.Second
	// noConnectTimeout is used if the timeout of a connection attempt is switched off, because Envoy requires one. The
	// operating system gives up earlier, after about two minutes.
	noConnectTimeout = 10 * time.Minute
	// httpOptionsKey is the key of a cluster's HTTP options (config.cluster.v3.Cluster,
	// typed_extension_protocol_options).
	httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// errProtocol is the error for a backend with an unknown protocol.
var errProtocol = errors.New("unknown protocol")

// clusterFactory creates clusters, which differ in name, protocol and settings, and in whether they receive mirrored
// requests.
type clusterFactory struct {
	options  Options
	breakers *clusterv3.CircuitBreakers                // from options only
	outliers *clusterv3.OutlierDetection               // without settings
	http     map[model.Protocol]map[string]*anypb.Any  // except for mirrored requests
	sockets  []*clusterv3.Cluster_TransportSocketMatch // for model.HTTPS without verification
}

// newClusterFactory creates the messages that clusters share.
func newClusterFactory(options Options) (clusterFactory, error) {
	factory := clusterFactory{
		options: options, outliers: outliersOf(model.Outliers{}), http: map[model.Protocol]map[string]*anypb.Any{},
	}
	factory.breakers = factory.breakersOf(clusterSpec{})
	var err error
	if factory.sockets, err = upstreamSockets(model.UpstreamTLS{}); err != nil {
		return clusterFactory{}, err
	}
	for protocol, options := range httpOptions() {
		if factory.http[protocol], err = packHTTPOptions(options, 0); err != nil {
			return clusterFactory{}, err
		}
	}
	return factory, nil
}

// packHTTPOptions completes the HTTP options of a cluster. maxDuration is the time from the start of a request to the
// end of its response, 0 for no limit.
func packHTTPOptions(
	options *upstreamhttpv3.HttpProtocolOptions, maxDuration time.Duration,
) (map[string]*anypb.Any, error) {
	options.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{
		IdleTimeout:          durationpb.New(upstreamIdleTimeout),
		MaxHeadersCount:      wrapperspb.UInt32(maxHeaderCount),
		MaxResponseHeadersKb: wrapperspb.UInt32(maxHeadersKB),
	}
	if maxDuration > 0 {
		options.CommonHttpProtocolOptions.MaxStreamDuration = durationpb.New(maxDuration)
	}
	packed, err := pack(options)
	return map[string]*anypb.Any{httpOptionsKey: packed}, err
}

// httpOptionsOf returns the HTTP options of one cluster. The error wraps errProtocol for an unknown protocol.
func (f clusterFactory) httpOptionsOf(spec clusterSpec) (map[string]*anypb.Any, error) {
	cached, ok := f.http[spec.protocol]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w %q", errProtocol, spec.protocol)
	case spec.isMirror:
		return packHTTPOptions(httpOptions()[spec.protocol], spec.mirrorTimeout())
	}
	return cached, nil
}

// mirrorTimeout returns the time of a mirrored request, 0 for no limit and for a cluster without such requests.
func (c clusterSpec) mirrorTimeout() time.Duration {
	if !c.isMirror {
		return 0
	}
	return cmp.Or(c.settings.OfRoute().MirrorTimeout, model.TimeoutOf(mirrorTimeout)).Value
}

// httpOptions returns the HTTP options of a cluster by protocol. Trailers are passed on, and the limits of responses
// are those of requests.
//
// HTTP/2 over TLS would need ALPN. Envoy rejects that for a cluster that contains an endpoint without TLS, such as
// the fallback listener.
func httpOptions() map[model.Protocol]*upstreamhttpv3.HttpProtocolOptions {
	explicit := func(config *upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig) *upstreamhttpv3.HttpProtocolOptions {
		return &upstreamhttpv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: config},
		}
	}
	http1 := &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{EnableTrailers: true},
		},
	}
	tlsOptions := explicit(http1)
	// The server name is the request's Host, as it would be without a proxy.
	tlsOptions.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{AutoSni: true}
	return map[model.Protocol]*upstreamhttpv3.HttpProtocolOptions{
		model.HTTP1: explicit(http1),
		model.HTTPS: tlsOptions,
		model.HTTP2: explicit(&upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
					AllowConnect:         true,
					MaxHeaderFieldSizeKb: wrapperspb.UInt32(maxHeaderFieldKB),
				},
			},
		}),
	}
}

// cluster creates one cluster. Its endpoints come from EDS under the same name.
//
//   - LEAST_REQUEST selects the less busy of two random endpoints, which reduces the load of slow and new Pods. An
//     object with session affinity has applyAffinity instead.
//   - In panic mode Envoy would send requests to draining endpoints. It occurs only if there is no healthy endpoint at
//     all: then ejected endpoints are used, too. An ejection therefore never makes a backend unavailable.
//   - Health changes are applied without the default delay of a second, so that a draining endpoint receives no new
//     requests.
//   - There are no active health checks. Kubernetes has its own, and EDS contains their results. Until those change, an
//     endpoint to which connections fail is ejected for a while, see outliersOf.
//   - For a removed endpoint Envoy completes the active requests and then closes the connections, so no option is
//     necessary.
func (f clusterFactory) cluster(spec clusterSpec) (*clusterv3.Cluster, error) {
	options, err := f.httpOptionsOf(spec)
	if err != nil {
		return nil, err
	}
	settings := spec.settings.OfCluster()
	cluster := &clusterv3.Cluster{
		Name:                 spec.name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			EdsConfig:   adsSource(endpointTimeout),
			ServiceName: spec.name,
		},
		ConnectTimeout:  durationpb.New(connectTimeoutOf(spec.protocol, settings)),
		LbPolicy:        clusterv3.Cluster_LEAST_REQUEST,
		CircuitBreakers: f.breakers, OutlierDetection: f.outliers,
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{
			HealthyPanicThreshold: &typev3.Percent{Value: panicPercent},
			UpdateMergeWindow:     durationpb.New(0),
		},
		TypedExtensionProtocolOptions: options,
	}
	if spec.protocol == model.HTTPS {
		sockets, err := f.socketsOf(settings.TLS)
		if err != nil {
			return nil, err
		}
		cluster.TransportSocketMatches = sockets
	}
	if settings != (model.ClusterSettings{}) || spec.hasOwnRetryConditions() {
		cluster.CircuitBreakers, cluster.OutlierDetection = f.breakersOf(spec), outliersOf(settings.Outliers)
		applyBalance(cluster, settings.Balance)
	}
	if err := applyAffinity(cluster, spec.affinity); err != nil {
		return nil, err
	}
	return cluster, validate(cluster)
}

// connectTimeoutOf returns the timeout of a connection attempt.
func connectTimeoutOf(protocol model.Protocol, settings model.ClusterSettings) time.Duration {
	standard := connectTimeout
	if protocol == model.HTTPS {
		standard = tlsConnectTimeout
	}
	return cmp.Or(cmp.Or(settings.ConnectTimeout, model.TimeoutOf(standard)).Value, noConnectTimeout)
}

// loadAssignment returns endpoints with their health. Draining endpoints keep their requests and receive no new ones,
// unless there are no others: a Pod that still answers is better than 503, and kube-proxy does the same (KEP-1669).
//
// Ready endpoints with hints are in groups, see hintedGroups.
func loadAssignment(name string, endpoints model.Endpoints) (*endpointv3.ClusterLoadAssignment, error) {
	assignment := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	draining, drainingStatus := notInPanic(endpoints.Draining, len(endpoints.Ready)), corev3.HealthStatus_DRAINING
	if len(endpoints.Ready) == 0 {
		draining, drainingStatus = endpoints.Draining, corev3.HealthStatus_HEALTHY
	}
	group := new(endpointv3.LocalityLbEndpoints)
	if len(endpoints.Hints) > 0 {
		assignment.Endpoints = hintedGroups(endpoints)
	} else {
		for _, at := range endpoints.Ready {
			group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(at, corev3.HealthStatus_HEALTHY))
		}
	}
	for _, at := range draining {
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(at, drainingStatus))
	}
	if len(group.GetLbEndpoints()) > 0 {
		assignment.Endpoints = append(assignment.GetEndpoints(), group)
	}
	return assignment, validate(assignment)
}

// notInPanic returns the draining endpoints that a cluster with a number of ready ones can have. Of too many, the rest
// would send the cluster into panic mode (panicPercent), and is omitted: Envoy completes the requests of an endpoint
// that it no longer has.
func notInPanic(draining []netip.AddrPort, ready int) []netip.AddrPort {
	return draining[:min(len(draining), ready*(100/panicPercent-1))]
}

// lbEndpoint returns one address with its health.
func lbEndpoint(at netip.AddrPort, health corev3.HealthStatus) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HealthStatus: health,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address:       at.Addr().String(),
				PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(at.Port())},
			}}},
		}},
	}
}
