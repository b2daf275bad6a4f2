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

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// connectTimeout bounds a connection attempt to a pod. A pod on a node that just died answers nothing at all.
	connectTimeout = 5 * time.Second
	// upstreamIdleTimeout is how long a connection to a pod is kept without a request on it. It is shorter than the 5 s after which Node.js, the most
	// impatient of common servers, closes one: a request on a connection that is being closed would fail, and is not tried again.
	upstreamIdleTimeout = 4 * time.Second
	// endpointPatience is how long Envoy holds up a new cluster, and its own start, for the cluster's endpoints. They are sent right behind the cluster,
	// so it passes only when something is broken, and then it should break one cluster, not the whole proxy.
	endpointPatience = 15 * time.Second
	// mirrorTimeout bounds a copy of a request, which nobody waits for, to the end of its response.
	mirrorTimeout = responseHeaderTimeout
	// httpOptionsKey is the key under which a cluster holds its HTTP options (config.cluster.v3.Cluster, typed_extension_protocol_options).
	httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// errProtocol says that a backend speaks a protocol that doesn't exist.
var errProtocol = errors.New("unknown protocol")

// clusterFactory makes clusters, which differ in name and protocol, and in whether they get copies of requests.
type clusterFactory struct {
	options       Options
	breakers      *clusterv3.CircuitBreakers // of options alone
	http, mirrors map[model.Protocol]map[string]*anypb.Any
	sockets       []*clusterv3.Cluster_TransportSocketMatch // of ir.HTTPS
}

// newClusterFactory makes the parts that clusters share.
func newClusterFactory(options Options) (clusterFactory, error) {
	factory := clusterFactory{
		options: options,
		http:    map[model.Protocol]map[string]*anypb.Any{}, mirrors: map[model.Protocol]map[string]*anypb.Any{},
	}
	factory.breakers = factory.breakersOf(model.ClusterTuning{})
	var err error
	if factory.sockets, err = upstreamSockets(); err != nil {
		return clusterFactory{}, err
	}
	for protocol, options := range httpOptions() {
		options.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(upstreamIdleTimeout)}
		packed, err := pack(options)
		if err != nil {
			return clusterFactory{}, err
		}
		factory.http[protocol] = map[string]*anypb.Any{httpOptionsKey: packed}
		options.CommonHttpProtocolOptions.MaxStreamDuration = durationpb.New(mirrorTimeout)
		if packed, err = pack(options); err != nil {
			return clusterFactory{}, err
		}
		factory.mirrors[protocol] = map[string]*anypb.Any{httpOptionsKey: packed}
	}
	return factory, nil
}

// httpOptions are what a cluster has of each protocol.
//
// HTTP/2 over TLS would be agreed upon in the handshake. Envoy refuses that for a cluster of which an endpoint takes no TLS, as the net.
func httpOptions() map[model.Protocol]*upstreamhttpv3.HttpProtocolOptions {
	explicit := func(config *upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig) *upstreamhttpv3.HttpProtocolOptions {
		return &upstreamhttpv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: config},
		}
	}
	first := &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
		},
	}
	secured := explicit(first)
	// The name in the handshake is the request's Host, as it would be without a proxy.
	secured.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{AutoSni: true}
	return map[model.Protocol]*upstreamhttpv3.HttpProtocolOptions{
		model.HTTP1: explicit(first),
		model.HTTPS: secured,
		model.HTTP2: explicit(&upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{AllowConnect: true},
			},
		}),
	}
}

// cluster makes one cluster, whose endpoints come by EDS under the same name.
//
//   - LEAST_REQUEST: of two random endpoints the less busy one, which is kind to a pod that is slow or new.
//   - Panic mode is off: it would send requests to endpoints that are draining.
//   - Changes of health are not collected for the usual second: an endpoint that starts to drain stops getting requests at once.
//   - There are no health checks of our own. Kubernetes has them, and EDS says what they found.
//   - When an endpoint is removed, Envoy lets the requests on it finish and closes the connections after; so nothing is set about that.
func (f clusterFactory) cluster(of clusterOf) (*clusterv3.Cluster, error) {
	byProtocol := f.http
	if of.isMirror {
		byProtocol = f.mirrors
	}
	options, known := byProtocol[of.protocol]
	if !known {
		return nil, fmt.Errorf("%w %q", errProtocol, of.protocol)
	}
	tuning := of.tuning.OfCluster()
	cluster := &clusterv3.Cluster{
		Name:                 of.name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: aggregated(endpointPatience), ServiceName: of.name},
		ConnectTimeout:       durationpb.New(cmp.Or(tuning.ConnectTimeout, connectTimeout)),
		LbPolicy:             clusterv3.Cluster_LEAST_REQUEST,
		CircuitBreakers:      f.breakers,
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{
			HealthyPanicThreshold: &typev3.Percent{},
			UpdateMergeWindow:     durationpb.New(0),
		},
		TypedExtensionProtocolOptions: options,
	}
	if of.protocol == model.HTTPS {
		cluster.TransportSocketMatches = f.sockets
	}
	if tuning != (model.ClusterTuning{}) {
		cluster.CircuitBreakers = f.breakersOf(tuning)
		balance(cluster, tuning.Balance)
	}
	return cluster, validate(cluster)
}

// loadAssignment lists endpoints with their health. Draining endpoints keep what they have and get nothing new, unless they are all there is: one that
// still answers is better than 503, and kube-proxy does the same (KEP-1669).
func loadAssignment(name string, endpoints model.Endpoints) (*endpointv3.ClusterLoadAssignment, error) {
	assignment := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	leaving := corev3.HealthStatus_DRAINING
	if len(endpoints.Ready) == 0 {
		leaving = corev3.HealthStatus_HEALTHY
	}
	group := new(endpointv3.LocalityLbEndpoints)
	for _, at := range endpoints.Ready {
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(at, corev3.HealthStatus_HEALTHY))
	}
	for _, at := range endpoints.Draining {
		group.LbEndpoints = append(group.LbEndpoints, lbEndpoint(at, leaving))
	}
	if len(group.GetLbEndpoints()) > 0 {
		assignment.Endpoints = []*endpointv3.LocalityLbEndpoints{group}
	}
	return assignment, validate(assignment)
}

// lbEndpoint is one address with its health.
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
