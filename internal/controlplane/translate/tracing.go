package translate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	tagsv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// TracingName is the name of the cluster of the collector of traces.
	TracingName = "kedify-tracing"
	// TracingService is the service.name of the spans of proxies.
	TracingService = "kedify-proxy"
	// tracingPort is the port of OTLP over gRPC.
	tracingPort = 4317
	// maxPathTag is the maximum length of the path in a span, in bytes.
	maxPathTag = 256
	// tracingTimeout is the timeout of a connection attempt to the collector, and of sending spans.
	tracingTimeout = 5 * time.Second
	percent        = 100
)

// errTracing is the error of an invalid setting of traces.
var errTracing = errors.New("invalid tracing")

// Tracing configures the spans that proxies send to a collector by OTLP over gRPC, with the W3C trace context. The zero
// value disables them, and changes no resource.
type Tracing struct {
	// Endpoint is the URL of the collector: http://<host>:<port>, or https. Without a port it is 4317.
	Endpoint string
	// Sampling is the ratio, from 0 to 1, of the requests without a trace context that are traced. For the others, the
	// sampled flag of their trace context decides.
	Sampling float64
	// CA are the CAs in PEM that sign the certificate of a collector with https.
	CA string
}

// IsEnabled reports whether there is a collector.
func (t Tracing) IsEnabled() bool { return t.Endpoint != "" }

// Check returns an error that names the flag of an invalid setting.
func (t Tracing) Check() error {
	if !t.IsEnabled() {
		return nil
	}
	if _, err := t.address(); err != nil {
		return err
	}
	switch {
	case t.IsSecure() && t.CA == "":
		return fmt.Errorf("%w: --tracing-ca-file: a collector with https needs the CA of its certificate: set the flag",
			errTracing)
	case t.IsSecure() && !isCA(t.CA):
		return fmt.Errorf("%w: --tracing-ca-file: no certificate, or a PEM block that is none: use a file with "+
			"certificates only", errTracing)
	}
	if !(t.Sampling >= 0 && t.Sampling <= 1) {
		return fmt.Errorf("%w: --tracing-sampling: %v is not a ratio: use 0 to 1", errTracing, t.Sampling)
	}
	return nil
}

// IsSecure reports whether the collector has TLS.
func (t Tracing) IsSecure() bool {
	at, err := url.Parse(t.Endpoint)
	return err == nil && at.Scheme == "https"
}

// address returns the address of the collector.
func (t Tracing) address() (*corev3.SocketAddress, error) {
	const fix = "use a URL such as http://otel-collector.observability.svc.cluster.local:4317"
	at, err := url.Parse(t.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: --tracing-endpoint: %w: %s", errTracing, err, fix)
	}
	if at.Scheme != "http" && at.Scheme != "https" || !isHost(at.Hostname()) || at.User != nil || at.RawQuery != "" ||
		at.Fragment != "" || at.Path != "" && at.Path != "/" {
		return nil, fmt.Errorf("%w: --tracing-endpoint: %q is no address of a collector (OTLP over gRPC): %s",
			errTracing, t.Endpoint, fix)
	}
	port := uint64(tracingPort)
	if at.Port() != "" {
		if port, err = strconv.ParseUint(at.Port(), 10, 16); err != nil || port == 0 {
			return nil, fmt.Errorf("%w: --tracing-endpoint: port %s is out of range: use 1 to 65535", errTracing, at.Port())
		}
	}
	return &corev3.SocketAddress{
		Address: at.Hostname(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}, nil
}

// hostPattern matches a DNS name, which may have underscores, and may end with a dot so that no search domain applies.
const hostPattern = `^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?[.]?$`

// isHost reports whether a text is a DNS name, or an IP address without a zone: Envoy has no other addresses.
func isHost(name string) bool {
	address, err := netip.ParseAddr(name)
	return err == nil && address.Zone() == "" || regexp.MustCompile(hostPattern).MatchString(name)
}

// isCA reports whether a text contains certificates in PEM, and nothing else in PEM.
func isCA(text string) bool {
	rest, count := []byte(text), 0
	for ; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return count > 0 && !strings.Contains(string(rest), "-----BEGIN")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return false
		}
	}
}

// apply makes a connection manager send spans.
//
//   - A span of its own for each try shows retries, and the time that a request waited for its endpoint.
//   - Envoy keeps the spans in memory and sends them later. It drops spans if the collector is slow or unreachable;
//     requests neither wait nor fail.
//   - A client can set the sampled flag of its trace context (W3C Trace Context, section 3.3.1.4), but not by
//     x-client-trace-id.
//   - The trace does not change the request ID.
func (t Tracing) apply(manager *hcmv3.HttpConnectionManager) error {
	if !t.IsEnabled() {
		return nil
	}
	exporter, err := pack(&tracev3.OpenTelemetryConfig{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: TracingName},
			},
			Timeout: durationpb.New(tracingTimeout),
		},
		ServiceName: TracingService,
	})
	if err != nil {
		return err
	}
	ids, err := pack(&uuidv3.UuidRequestIdConfig{
		PackTraceReason: wrapperspb.Bool(false), UseRequestIdForTraceSampling: wrapperspb.Bool(false),
	})
	if err != nil {
		return err
	}
	manager.RequestIdExtension = &hcmv3.RequestIDExtension{TypedConfig: ids}
	manager.Tracing = &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling:    &typev3.Percent{Value: 0},
		RandomSampling:    &typev3.Percent{Value: t.Sampling * percent},
		OverallSampling:   &typev3.Percent{Value: percent},
		MaxPathTagLength:  wrapperspb.UInt32(maxPathTag),
		SpawnUpstreamSpan: wrapperspb.Bool(true),
		CustomTags: []*tagsv3.CustomTag{
			{Tag: "kedify.route", Type: &tagsv3.CustomTag_Value{Value: "%ROUTE_NAME%"}},
			{Tag: "kedify.cluster", Type: &tagsv3.CustomTag_Value{Value: "%UPSTREAM_CLUSTER%"}},
		},
		Provider: &tracev3.Tracing_Http{
			Name:       "envoy.tracers.opentelemetry",
			ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: exporter},
		},
	}
	return nil
}

// addTracing adds the cluster of the collector.
func (o Options) addTracing(out Update) error {
	if !o.Tracing.IsEnabled() {
		return nil
	}
	cluster, err := o.Tracing.cluster()
	if err != nil {
		return fmt.Errorf("cluster %s: %w", TracingName, err)
	}
	out.Changed[resourcev3.ClusterType][TracingName] = cluster
	return nil
}

// cluster returns the cluster of the collector. Envoy does not wait for its addresses: without them it drops spans.
func (t Tracing) cluster() (*clusterv3.Cluster, error) {
	address, err := t.address()
	if err != nil {
		return nil, err
	}
	options, err := pack(&upstreamhttpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	cluster := &clusterv3.Cluster{
		Name:                          TracingName,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		WaitForWarmOnInit:             wrapperspb.Bool(false),
		ConnectTimeout:                durationpb.New(tracingTimeout),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptionsKey: options},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: TracingName,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: address}},
				}},
			}}}},
		},
	}
	if t.IsSecure() {
		if cluster.TransportSocket, err = collectorTLS(t.CA, strings.TrimSuffix(address.GetAddress(), ".")); err != nil {
			return nil, err
		}
	}
	return cluster, validate(cluster)
}
