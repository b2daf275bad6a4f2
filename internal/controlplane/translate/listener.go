package translate

import (
	"fmt"
	"net/http"
	"slices"
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
	// StatPrefix is what the listener's metrics have in their names: the preStop hook of kedify-proxy
	// waits until http.kedify-proxy.downstream_cx_active is low.
	StatPrefix = "kedify-proxy"
)

const (
	// NotFound is the body of a 404 by the proxy itself.
	NotFound = "no app answers to this host and path\n"
	// requestHeadersTimeout bounds the time from the first byte of a request to the end of its
	// headers. Without it a client holds a connection for an hour with one byte.
	requestHeadersTimeout = 10 * time.Second
	// maxConcurrentStreams is how many requests one HTTP/2 connection may have under way, and
	// streamWindow how many bytes each of them may send ahead; see http2Options.
	maxConcurrentStreams, streamWindow = 256, 64 << 10
)

// retryAfter is the number of seconds after which a client may come back that was told 503 because
// nothing is ready.
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
	listener := &listenerv3.Listener{
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
	}
	return listener, validate(listener)
}

// connectionManager is how HTTP is spoken downstream.
//
//   - The path is normalised (RFC 3986, section 6.2.2.3) before it is matched, so that
//     /app/../admin is /admin for our rules as it is for the app. Repeated and escaped slashes
//     stay: apps give them a meaning.
//   - The Host that the app sees is the one that the client sent.
//   - Every client is external, pods of the cluster too, so that x-envoy-* headers, which could ask
//     for retries and other timeouts, are removed.
//   - The app's answers pass unchanged: its Server header stays, and no x-envoy-* header is added.
//   - A request id that a proxy in front of ours has given stays.
//   - A client that begins a request has to come to the end of its headers.
func (o Options) connectionManager() (*hcmv3.HttpConnectionManager, error) {
	early, err := scopeHeader()
	if err != nil {
		return nil, err
	}
	filters, err := o.mainFilters()
	if err != nil {
		return nil, err
	}
	logs, err := o.accessLogs()
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpConnectionManager{
		CodecType:                     hcmv3.HttpConnectionManager_AUTO,
		StatPrefix:                    StatPrefix,
		EarlyHeaderMutationExtensions: early,
		RouteSpecifier:                scopedRoutes(),
		HttpFilters:                   filters,
		// WebSocket over HTTP/2 comes as an extended CONNECT (RFC 8441).
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{
			{UpgradeType: "websocket"},
		},
		Http2ProtocolOptions:       http2Options(),
		StreamIdleTimeout:          durationpb.New(streamIdleTimeout),
		RequestHeadersTimeout:      durationpb.New(requestHeadersTimeout),
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

// http2Options are those of connections from clients.
//
// Envoy's default is a window of 16 MiB for a stream and 24 MiB for a connection. An upload that
// waits is then buffered whole, and two of them use up the connection: every other upload on it
// stands still. With a small window for a stream an upload waits at its sender, and with a
// connection's window of twice as many as it may have streams none waits for another one: Envoy opens
// the connection's window again when half of it was read, so the streams that stand still may take up one half.
func http2Options() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		AllowConnect:                true,
		MaxConcurrentStreams:        wrapperspb.UInt32(maxConcurrentStreams),
		InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
		InitialConnectionWindowSize: wrapperspb.UInt32(2 * maxConcurrentStreams * streamWindow),
	}
}

// mainFilters are those of the listener that clients reach.
func (o Options) mainFilters() ([]*hcmv3.HttpFilter, error) {
	var holding []*hcmv3.HttpFilter
	if o.Hold.isOn() {
		hold, err := holdFilter(HoldName)
		if err != nil {
			return nil, err
		}
		holding = append(holding, hold)
	}
	probe, err := probeFilter()
	if err != nil {
		return nil, err
	}
	filters, err := httpFilters(holding...)
	return append([]*hcmv3.HttpFilter{probe}, filters...), err
}

// httpFilters are passed by each request in this order. What holds requests is between the two: behind
// the fallback, which finds the route, and before the router.
func httpFilters(holding ...*hcmv3.HttpFilter) ([]*hcmv3.HttpFilter, error) {
	fallback, err := fallbackFilter()
	if err != nil {
		return nil, err
	}
	router, err := pack(&routerv3.Router{SuppressEnvoyHeaders: true})
	if err != nil {
		return nil, err
	}
	return slices.Concat([]*hcmv3.HttpFilter{fallback}, holding, []*hcmv3.HttpFilter{{
		Name:       "envoy.filters.http.router",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
	}}), nil
}

// localReplies changes what Envoy answers by itself. A 503 gets Retry-After if the app has not seen the
// request; a 404 gets a text that says whose it is. What the interceptor answers says by itself when to come back.
//
//   - UH: the cluster has no endpoint that takes requests.
//   - UF: none that a connection can be made to. It has just gone, or the proxy has no descriptor left.
//   - UO: the cluster has as much under way as it may have.
//   - UAEX: the interceptor could not be asked.
//
// The answer to a health check says that it is one.
func localReplies() *hcmv3.LocalReplyConfig {
	unseen := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UH", "UF", "UO", "UAEX"}},
	}}
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		{Filter: unseen, HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "retry-after", Value: retryAfter},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}}},
		{Filter: hasStatus(http.StatusNotFound), Body: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: NotFound},
		}},
		probeReply(),
	}}
}

// hasStatus is what an answer with a status passes.
func hasStatus(status uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: accesslogv3.ComparisonFilter_EQ,
			// The API demands a key by which the status could be changed at run time.
			Value: &corev3.RuntimeUInt32{DefaultValue: status, RuntimeKey: "kedify.none"},
		}},
	}}
}

// accessLogs is one JSON object per request on standard output, or nothing. Standard output is
// written directly, because opening /dev/stdout fails for a process that has dropped its
// privileges.
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

// aggregated says that a resource comes over the proxy's aggregated stream (ADS). Envoy gives up
// waiting for the first answer after patience, and never when it is 0.
func aggregated(patience time.Duration) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(patience),
	}
}
