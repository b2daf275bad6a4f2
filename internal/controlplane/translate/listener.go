package translate

import (
	"slices"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// ListenerName is the name of the HTTP listener.
	ListenerName = "kedify-proxy"
	// ListenerAddress is the address of the listeners for clients; see IPv6ListenerAddress for IPv6.
	ListenerAddress = "0.0.0.0"
	// ListenerPort is the port for HTTP/1.1 and HTTP/2 in clear text, an unprivileged one.
	ListenerPort = 8080
	// StatPrefix is the prefix of the listener's metrics. The preStop hook of kedify-proxy waits until
	// http.kedify-proxy.downstream_cx_active is low.
	StatPrefix = "kedify-proxy"
)

const (
	// NotFoundBody is the body of a 404 by the proxy itself.
	NotFoundBody = "no app answers to this host and path\n"
	// requestHeadersTimeout is the default of Options.RequestHeadersTimeout. Without it a client can keep a connection
	// open for an hour with one byte.
	requestHeadersTimeout = 10 * time.Second
	// maxLogged is the maximum size of a header in the access log, in bytes. A client can send much more.
	maxLogged = 4096
)

// retryAfter is the Retry-After header, in seconds, of a 503 for a workload without ready endpoints.
const retryAfter = "1"

// listener returns the listener. It is the same for every Config: nothing in it depends on routes.
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
		Name:    ListenerName,
		Address: listenerAddress(ListenerPort),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
			}},
		}},
	}
	return listener, validate(listener)
}

// connectionManager returns the HTTP options for downstream connections.
//
//   - The path is normalized (RFC 3986, section 6.2.2.3) before it is matched, so that /app/../admin matches as
//     /admin, as it does in the workload. Repeated and escaped slashes are preserved by default, because they are
//     significant for workloads: see Strictness.
//   - The workload receives the Host that the client sent. A request with an invalid Host is rejected, see hostFilter.
//   - Headers of clients whose names begin with x-envoy- are removed, see clientHeaders.
//   - Responses of the workload are not modified: the Server header is preserved, and no x-envoy-* header is added.
//   - A request id from a proxy in front is preserved.
//   - A client must complete the headers of a request in time, see Options.RequestHeadersTimeout.
//   - Protocol versions, upgrades and limits are those of commonManager.
func (o Options) connectionManager() (*hcmv3.HttpConnectionManager, error) {
	early, err := earlyHeaders(clientHeaders()...)
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
	manager := commonManager(StatPrefix, clientLimits())
	manager.EarlyHeaderMutationExtensions = early
	manager.HttpFilters = filters
	if o.RequestHeadersTimeout > 0 {
		manager.RequestHeadersTimeout = timeoutOf(o.RequestHeadersTimeout)
	}
	manager.UseRemoteAddress = wrapperspb.Bool(true)
	manager.XffNumTrustedHops = o.TrustedHops
	manager.AccessLog = logs
	o.Strictness.apply(manager)
	return manager, o.Tracing.apply(manager)
}

// mainFilters returns the filters of the listener for clients. Requests in the fallback listener have passed
// hostFilter already.
func (o Options) mainFilters() ([]*hcmv3.HttpFilter, error) {
	host, err := hostFilter()
	if err != nil {
		return nil, err
	}
	var holdFilters []*hcmv3.HttpFilter
	if o.Hold.isEnabled() {
		hold, err := holdFilter(HoldName)
		if err != nil {
			return nil, err
		}
		holdFilters = append(holdFilters, hold)
	}
	filters, err := httpFilters(holdFilters...)
	return append([]*hcmv3.HttpFilter{host}, filters...), err
}

// httpFilters returns the filters in the order of execution. holdFilters are between the scope fallback filter, which
// finds the route, and the router.
func httpFilters(holdFilters ...*hcmv3.HttpFilter) ([]*hcmv3.HttpFilter, error) {
	fallback, err := scopeFallbackFilter()
	if err != nil {
		return nil, err
	}
	router, err := pack(&routerv3.Router{SuppressEnvoyHeaders: true})
	if err != nil {
		return nil, err
	}
	return slices.Concat([]*hcmv3.HttpFilter{fallback}, holdFilters, []*hcmv3.HttpFilter{{
		Name:       "envoy.filters.http.router",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
	}}), nil
}

// localReplyConfig modifies responses that Envoy generates, so that clients can distinguish them from those of the
// workload. A response contains ReasonHeader if the workload may have received the request, and Retry-After if it has
// not. A 404 has a body that names its source. Responses of the interceptor contain their own Retry-After and reason.
// A request with an invalid Host is answered with 400.
// The first mapper that matches applies; after a retry, the flags of both attempts are set. The response flags:
//
//   - UT: a timeout of the response has expired. SI: nothing was sent or received for the idle timeout.
//   - UC, UR, LR: the connection or the stream to the workload was reset. UPE: its response is invalid.
//   - UH: the cluster has no endpoint that accepts requests.
//   - UF: no connection can be established. The endpoint was just removed, or the proxy has no file descriptors left.
//   - UO: a circuit breaker of the cluster is open.
//   - UAEX: the call to the interceptor failed.
func localReplyConfig() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		invalidHostMapper(),
		flagMapper(ReasonHeader, ReasonTimeout, "UT", "SI"),
		flagMapper(ReasonHeader, ReasonReset, "UC", "UR", "LR", "UPE"),
		flagMapper("retry-after", retryAfter, "UH", "UF", "UO", "UAEX"),
		{Filter: flagFilter("NR"), Body: inlineBody(NotFoundBody)},
	}}
}

// flagMapper returns a mapper that adds a header, unless it is present, to responses with one of the response flags.
func flagMapper(header, value string, flags ...string) *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{
		Filter: flagFilter(flags...),
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: header, Value: value},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}},
	}
}

// flagFilter matches responses with one of the response flags.
func flagFilter(flags ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags},
	}}
}

// inlineBody returns the body of a response.
func inlineBody(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

// statusFilter matches responses with a status.
func statusFilter(status uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: accesslogv3.ComparisonFilter_EQ,
			// The API requires a runtime key, by which the status could be changed.
			Value: &corev3.RuntimeUInt32{DefaultValue: status, RuntimeKey: noRuntimeKey},
		}},
	}}
}

// adsSource is the configuration source of resources on the proxy's aggregated stream (ADS). timeout is how long
// Envoy waits for the first response; 0 means without limit.
func adsSource(timeout time.Duration) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(timeout),
	}
}
