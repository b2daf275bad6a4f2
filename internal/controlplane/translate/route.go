package translate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// streamIdleTimeout is how long a request or an upgraded connection may be idle in both directions.
	streamIdleTimeout = time.Hour
	// safeRetries is the number of retries of a request that no workload can have received. So many Pods may have
	// disappeared at once, before the proxy knows it. retries is the number with other conditions for a retry, or with
	// another timeout of connection attempts.
	safeRetries, retries = 10, 2
	// safeConditions are the default conditions for a retry: no workload can have received the request.
	safeConditions = "connect-failure,refused-stream"
	// hostAttempts is how often a retry selects another Pod because the selected one was already tried. LEAST_REQUEST
	// selects the less busy of two random Pods, so it prefers one that has disappeared, and is idle, to a busy one. With
	// ten Pods of which nine were tried, a selection returns the tenth in 1 of 100 cases if it is busy, and in 1 of 10 if
	// it is idle. So a retry reaches a tried Pod again in 1 of 13 cases or practically never; with 32 attempts, in 3 of 4
	// or in 1 of 32. With two Pods it practically never does.
	hostAttempts = 256
)

// errNoWeight is the error for a Route without a backend that may receive requests.
var errNoWeight = errors.New("no backend with a weight above zero")

// virtualHost translates all Routes of one host, of which config has at least one. Its name is the host.
func (f scopeFactory) virtualHost(host model.Host, config model.Config) (*routev3.VirtualHost, error) {
	virtual := &routev3.VirtualHost{
		Name:    string(host),
		Domains: domains(host),
		Routes:  make([]*routev3.Route, 0, len(config.Routes)+1),
	}
	for _, route := range config.Routes {
		translated, err := f.envoyRoute(route, config.Services)
		if err != nil {
			return nil, fmt.Errorf("%s for %s%s: %w", route.Owner, host, route.Match.PathPrefix, err)
		}
		virtual.Routes = append(virtual.Routes, probeRoutes(route, config.Services)...)
		split := append(f.managedRoutes(route, config.Services, translated), withCookies(translated, route.Cookies())...)
		virtual.Routes = append(virtual.Routes, f.staticRoutes(route, config.Services, split)...)
		virtual.Routes = append(virtual.Routes, f.failoverRoutes(route, config.Services)...)
		virtual.Routes = append(virtual.Routes, split...)
	}
	return virtual, validate(virtual)
}

// domains returns the spellings of a host in WildcardScope. Envoy matches hosts in lower case, and without port as the
// route configuration requests. A trailing dot, however, is a different name for Envoy.
func domains(host model.Host) []string {
	if host == model.AnyHost || host.IsIPv6() {
		return []string{string(host)}
	}
	return []string{string(host), string(host) + "."}
}

// envoyRoute translates one Route. Its name is the owner, which appears in the access log.
func (f scopeFactory) envoyRoute(
	route model.Route, services map[model.ServicePort]model.Endpoints,
) (*routev3.Route, error) {
	action, err := f.routeAction(route, services)
	if err != nil {
		return nil, err
	}
	translated := &routev3.Route{
		Name:   route.Owner.String(),
		Match:  routeMatch(route.Match),
		Action: &routev3.Route_Route{Route: action},
	}
	if len(route.Backends) == 1 && model.WaitsForEndpoint(route, services)[0] {
		translated.TypedPerFilterConfig = f.holdConfigs.hold
	}
	return translated, nil
}

// routeMatch translates a Match below its host.
func routeMatch(match model.Match) *routev3.RouteMatch {
	translated := new(routev3.RouteMatch)
	if match.PathPrefix == "/" {
		translated.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/"}
	} else {
		translated.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: match.PathPrefix}
	}
	for _, header := range match.Headers {
		translated.Headers = append(translated.Headers, conditionOn(header))
	}
	return translated
}

// conditionOn translates a condition on a header.
func conditionOn(header model.Header) *routev3.HeaderMatcher {
	if expression := header.Expression(); expression != "" {
		return regexHeader(header.Name, expression)
	}
	matcher := &routev3.HeaderMatcher{Name: header.Name}
	if header.Any {
		matcher.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		matcher.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: exactString(header.Value)}
	}
	return matcher
}

// routeAction routes to one cluster, or to several by their effective weights. Clusters of weight 0 stay in the list
// for operators to see. The hold filter is enabled for the clusters with queued requests.
func (f scopeFactory) routeAction(
	route model.Route, services map[model.ServicePort]model.Endpoints,
) (*routev3.RouteAction, error) {
	action := f.actionWithLimits(route, services)
	if len(route.Backends) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: ClusterName(route.Owner, route.Backends[0].Service)}
		return action, nil
	}
	var sum uint64
	weighted, isWaiting := new(routev3.WeightedCluster), model.WaitsForEndpoint(route, services)
	for _, part := range splitOf(route, services) {
		sum += uint64(part.Weight)
		cluster := &routev3.WeightedCluster_ClusterWeight{
			Name:   ClusterName(route.Owner, route.Backends[part.Backend].Service),
			Weight: wrapperspb.UInt32(part.Weight),
		}
		if isWaiting[part.Backend] {
			cluster.TypedPerFilterConfig = f.holdConfigs.hold
		}
		weighted.Clusters = append(weighted.Clusters, cluster)
	}
	if sum == 0 {
		return nil, errNoWeight
	}
	makeSticky(action, weighted, route.SplitKey())
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
	return action, nil
}

// actionWithLimits returns an action with the limits of every request, without a cluster.
//
// The timeout per try limits the time to the response headers, because Envoy stops it when the response begins. By
// default there is none: reports, exports and long polls may be slow, and Ingress controllers with limits have settings
// for them. The route timeout is disabled, because it would continue and interrupt streams.
//
// A request is retried only if no workload can have seen it: the connection to the Pod failed, or the Pod rejected
// the stream without processing (REFUSED_STREAM, RFC 9113, section 8.7). The retry goes to another Pod of the same
// cluster, so the traffic split does not change. A timeout of the response is not retried. All of these are defaults,
// see model.RouteSettings.
func (f scopeFactory) actionWithLimits(
	route model.Route, services map[model.ServicePort]model.Endpoints,
) *routev3.RouteAction {
	settings := route.EnvoySettings.OfRoute()
	var perTry *durationpb.Duration
	if timeout := responseHeaderTimeout(route); timeout > 0 {
		perTry = timeoutOf(timeout)
	}
	idle := idleTimeout(route)
	if idle > 0 && f.holdConfigs.hold != nil && slices.Contains(model.WaitsForEndpoint(route, services), true) {
		idle = max(idle, streamIdleTimeout) // A queued request is idle.
	}
	return &routev3.RouteAction{
		Timeout:     timeoutOf(requestTimeout(route)),
		IdleTimeout: timeoutOf(idle),
		RetryPolicy: &routev3.RetryPolicy{
			RetryOn:                       cmp.Or(settings.RetryOn, safeConditions),
			NumRetries:                    wrapperspb.UInt32(retriesOf(route.EnvoySettings)),
			PerTryTimeout:                 perTry,
			RetryHostPredicate:            f.retries,
			RetryPriority:                 f.retryPriority(route, services),
			HostSelectionRetryMaxAttempts: hostAttempts,
			RetriableStatusCodes:          retryCodes(settings.RetryCodes),
			RetryBackOff:                  backOff(settings.BackOff),
		},
	}
}

// retriesOf returns the maximum number of retries of a request. The default with a connect timeout of the user is the
// lower one: that may be minutes, and without any reachable Pod the request waits for it in each try.
func retriesOf(settings *model.EnvoySettings) uint32 {
	ofRoute := settings.OfRoute()
	switch {
	case ofRoute.Retries.IsGiven:
		return ofRoute.Retries.Value
	case ofRoute.RetryOn == "" && !settings.OfCluster().ConnectTimeout.IsGiven:
		return safeRetries
	default:
		return retries
	}
}

// maxTimeout is the longest time limit of a route, 100 years. Longer ones are reduced to it: Envoy rejects a route
// whose limit is close to the maximum of time.Duration, 292 years.
const maxTimeout = 100 * 365 * 24 * time.Hour

// timeoutOf returns a time limit from a millisecond to maxTimeout, or 0 for none. Envoy rounds limits down to
// milliseconds, so a shorter one would be no limit.
func timeoutOf(limit time.Duration) *durationpb.Duration {
	if limit > 0 {
		limit = min(max(limit, time.Millisecond), maxTimeout)
	}
	return durationpb.New(limit)
}

// responseHeaderTimeout returns the maximum time to the response headers, 0 for none. The object's own timeout has
// precedence over the settings.
func responseHeaderTimeout(route model.Route) time.Duration {
	return cmp.Or(route.Timeouts.ResponseHeader, route.EnvoySettings.OfRoute().PerTryTimeout).Value
}

// requestTimeout returns the maximum time from the end of the request to the end of the response, with all retries, 0 for
// none.
func requestTimeout(route model.Route) time.Duration {
	return cmp.Or(route.Timeouts.Request, model.Timeout(route.EnvoySettings.OfRoute().Timeout)).Value
}

// idleTimeout returns how long a request may be idle in both directions, 0 for no limit.
func idleTimeout(route model.Route) time.Duration {
	return cmp.Or(route.Timeouts.Idle, route.EnvoySettings.OfRoute().IdleTimeout, model.TimeoutOf(streamIdleTimeout)).Value
}

// retryCodes returns the status codes that are set.
func retryCodes(settings [model.MaxRetryCodes]uint32) []uint32 {
	var codes []uint32
	for _, code := range settings {
		if code != 0 {
			codes = append(codes, code)
		}
	}
	return codes
}

// backOff returns nil for Envoy's defaults, 25 ms and ten times that.
func backOff(settings model.BackOff) *routev3.RetryPolicy_RetryBackOff {
	if settings.Base == 0 {
		return nil
	}
	policy := &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(settings.Base)}
	if settings.Max > 0 {
		policy.MaxInterval = durationpb.New(settings.Max)
	}
	return policy
}

// otherHostPredicate makes a retry select a Pod that was not tried before.
func otherHostPredicate() ([]*routev3.RetryPolicy_RetryHostPredicate, error) {
	config, err := pack(&previoushostsv3.PreviousHostsPredicate{})
	if err != nil {
		return nil, err
	}
	return []*routev3.RetryPolicy_RetryHostPredicate{{
		Name:       "envoy.retry_host_predicates.previous_hosts",
		ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{TypedConfig: config},
	}}, nil
}
