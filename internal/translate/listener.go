package translate

import (
	"fmt"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	streamlogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// ListenerName is the name of the one listener.
	ListenerName = "kedify-proxy"
	// ListenerAddress and ListenerPort are where it accepts HTTP/1.1 and HTTP/2 in clear text.
	ListenerAddress = "0.0.0.0"
	// ListenerPort is a port that needs no privilege.
	ListenerPort = 8080
	// StatPrefix is what the listener's metrics have in their names: the preStop hook of kedify-proxy waits until http.kedify-proxy.downstream_cx_active
	// is low.
	StatPrefix = "kedify-proxy"
)

// retryAfter is the number of seconds after which a client may come back that was told 503 because nothing is ready.
const retryAfter = "1"

// listener is the same for every world: nothing in it depends on routes.
func (o Options) listener() (*listenerv3.Listener, error) {
	manager, err := o.connectionManager()
	if err != nil {
		return nil, err
	}
	config, err := pack(manager)
	if err != nil {
		return nil, err
	}
	return &listenerv3.Listener{
		Name: ListenerName,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address:       ListenerAddress,
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: ListenerPort},
		}}},
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
			}},
		}},
	}, nil
}

// connectionManager is how HTTP is spoken downstream.
//
//   - The path is normalised (RFC 3986, section 6.2.2.3) before it is matched, so that /app/../admin is /admin for our rules as it is for the app.
//     Repeated and escaped slashes stay: apps give them a meaning.
//   - The Host that the app sees is the one that the client sent. The route configuration ignores its port and case by itself.
//   - Every client is external, pods of the cluster too, so that x-envoy-* headers, which could ask for retries and other timeouts, are removed.
//   - The app's answers pass unchanged: its Server header stays, and no x-envoy-* header is added.
//   - A request id that a proxy in front of ours has given stays.
func (o Options) connectionManager() (*hcmv3.HttpConnectionManager, error) {
	router, err := pack(&routerv3.Router{SuppressEnvoyHeaders: true})
	if err != nil {
		return nil, err
	}
	logs, err := o.accessLogs()
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpConnectionManager{
		CodecType:  hcmv3.HttpConnectionManager_AUTO,
		StatPrefix: StatPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: RouteConfigName,
			// No limit: until routes are there the proxy is not ready, rather than ready to answer 404 to every host.
			ConfigSource: aggregated(0),
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
		}},
		// WebSocket over HTTP/2 comes as an extended CONNECT (RFC 8441).
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		Http2ProtocolOptions:       &corev3.Http2ProtocolOptions{AllowConnect: true},
		StreamIdleTimeout:          durationpb.New(streamIdleTimeout),
		UseRemoteAddress:           wrapperspb.Bool(true),
		XffNumTrustedHops:          o.TrustedHops,
		InternalAddressConfig:      &hcmv3.HttpConnectionManager_InternalAddressConfig{},
		PreserveExternalRequestId:  true,
		NormalizePath:              wrapperspb.Bool(true),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		LocalReplyConfig:           localReplies(),
		AccessLog:                  logs,
	}, nil
}

// localReplies adds Retry-After to the 503 that Envoy answers when a cluster has no endpoint to take the request (response flag UH).
func localReplies() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
			ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UH"}},
		}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "retry-after", Value: retryAfter},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
	}}}
}

// accessLogs is one JSON object per request on standard output, or nothing. Standard output is written directly, because opening /dev/stdout fails for a
// process that has dropped its privileges.
func (o Options) accessLogs() ([]*accesslogv3.AccessLog, error) {
	if !o.AccessLog {
		return nil, nil
	}
	fields, err := structpb.NewStruct(map[string]any{
		"time":           "%START_TIME%",
		"client":         "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"forwardedFor":   "%REQ(X-FORWARDED-FOR)%",
		"requestId":      "%REQ(X-REQUEST-ID)%",
		"protocol":       "%PROTOCOL%",
		"method":         "%REQ(:METHOD)%",
		"host":           "%REQ(:AUTHORITY)%",
		"path":           "%REQ(:PATH)%",
		"userAgent":      "%REQ(USER-AGENT)%",
		"status":         "%RESPONSE_CODE%",
		"flags":          "%RESPONSE_FLAGS%",
		"details":        "%RESPONSE_CODE_DETAILS%",
		"bytesIn":        "%BYTES_RECEIVED%",
		"bytesOut":       "%BYTES_SENT%",
		"milliseconds":   "%DURATION%",
		"route":          "%ROUTE_NAME%",
		"cluster":        "%UPSTREAM_CLUSTER%",
		"endpoint":       "%UPSTREAM_HOST%",
		"transportError": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
	})
	if err != nil {
		return nil, fmt.Errorf("access log format: %w", err)
	}
	config, err := pack(&streamlogv3.StdoutAccessLog{AccessLogFormat: &streamlogv3.StdoutAccessLog_LogFormat{
		LogFormat: &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields}},
	}})
	if err != nil {
		return nil, err
	}
	return []*accesslogv3.AccessLog{{
		Name:       "envoy.access_loggers.stdout",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: config},
	}}, nil
}

// aggregated says that a resource comes over the proxy's aggregated stream (ADS). Envoy gives up waiting for the first answer after patience, and never
// when it is 0.
func aggregated(patience time.Duration) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(patience),
	}
}
