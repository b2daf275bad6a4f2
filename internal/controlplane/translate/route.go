package translate

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// streamIdleTimeout is how long a request or an upgraded connection may be silent in both
	// directions.
	streamIdleTimeout = time.Hour
	// responseHeaderTimeout is the default of ir.Timeouts.ResponseHeader.
	responseHeaderTimeout = 30 * time.Second
	// retries is how often a request is tried again, and hostAttempts how often a pod is chosen anew
	// for that because it was tried before. Pods are chosen at random: of two pods the dead one comes
	// up again in about one of 16 retries with 3 attempts, and in one of 2000 with 10.
	retries, hostAttempts = 2, 10
)

// errNoWeight says that a Route has no backend that may get a request.
var errNoWeight = errors.New("no backend with a weight above zero")

// virtualHost has all the Routes of one host, of which config has at least one. Its name is the
// host.
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
		virtual.Routes = append(virtual.Routes, f.failoverRoutes(route, config.Services)...)
		virtual.Routes = append(virtual.Routes, f.managedRoutes(route, config.Services, translated)...)
		virtual.Routes = append(virtual.Routes, translated)
	}
	return virtual, validate(virtual)
}

// domains are the spellings of a wildcard. Envoy itself looks hosts up in lower case, and without
// port as the route configuration says, but a trailing dot is a name of its own to it.
func domains(host model.Host) []string {
	if host == model.AnyHost {
		return []string{string(host)}
	}
	return []string{string(host), string(host) + "."}
}

// envoyRoute carries the owner's name, which the access log prints.
func (f scopeFactory) envoyRoute(route model.Route, services map[model.ServicePort]model.Endpoints) (*routev3.Route, error) {
	action, err := f.routeAction(route, services)
	if err != nil {
		return nil, err
	}
	translated := &routev3.Route{
		Name:   route.Owner.String(),
		Match:  routeMatch(route.Match),
		Action: &routev3.Route_Route{Route: action},
	}
	f.arm(translated, model.WaitsForEndpoint(route, services))
	return translated, nil
}

// arm has the requests for the backends that are held pass the filter that does so.
func (f scopeFactory) arm(route *routev3.Route, held []bool) {
	sides := route.GetRoute().GetWeightedClusters().GetClusters()
	if len(sides) == 0 && held[0] {
		route.TypedPerFilterConfig = f.hold.armed
	}
	for i, side := range sides {
		if held[i] {
			side.TypedPerFilterConfig = f.hold.armed
		}
	}
}

// routeMatch is the part of a Match below its host.
func routeMatch(match model.Match) *routev3.RouteMatch {
	translated := new(routev3.RouteMatch)
	if match.PathPrefix == "/" {
		translated.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/"}
	} else {
		translated.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: match.PathPrefix}
	}
	for _, header := range match.Headers {
		matcher := &routev3.HeaderMatcher{Name: header.Name}
		if header.Any {
			matcher.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
		} else {
			matcher.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: header.Value},
			}}
		}
		translated.Headers = append(translated.Headers, matcher)
	}
	return translated
}

// routeAction sends requests to one cluster, or to several by their effective weights. Clusters of
// weight 0 stay in the list, where operators look for them.
func (f scopeFactory) routeAction(route model.Route, services map[model.ServicePort]model.Endpoints) (*routev3.RouteAction, error) {
	action := f.boundedAction(route)
	if len(route.Backends) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: ClusterName(route.Owner, route.Backends[0].Service)}
		return action, nil
	}
	var sum uint64
	weighted := new(routev3.WeightedCluster)
	for i, weight := range model.EffectiveWeights(route.Backends, services) {
		sum += uint64(weight)
		weighted.Clusters = append(weighted.Clusters, &routev3.WeightedCluster_ClusterWeight{
			Name:   ClusterName(route.Owner, route.Backends[i].Service),
			Weight: wrapperspb.UInt32(weight),
		})
	}
	if sum == 0 {
		return nil, errNoWeight
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
	return action, nil
}

// boundedAction has the limits of every request, and leads nowhere yet.
//
// The time to the headers of the response is bounded by the timeout per try, which Envoy stops
// counting once the response has begun. The timeout of the route, which would count on and cut
// streams, is off.
//
// A request is tried again only if no app can have seen it: the connection to the pod failed, or
// the pod said that it hasn't looked at the stream (REFUSED_STREAM, RFC 9113, section 8.7). It is
// tried on another pod of the same cluster, so the split stays what it is. A timeout is not a
// reason. All of this is where nobody has changed it: see ir.RouteTuning.
func (f scopeFactory) boundedAction(route model.Route) *routev3.RouteAction {
	tuning := route.Tuning.OfRoute()
	return &routev3.RouteAction{
		Timeout:     durationpb.New(tuning.Timeout.Value),
		IdleTimeout: durationpb.New(cmp.Or(tuning.IdleTimeout, streamIdleTimeout)),
		RetryPolicy: &routev3.RetryPolicy{
			RetryOn:                       cmp.Or(tuning.RetryOn, "connect-failure,refused-stream"),
			NumRetries:                    wrapperspb.UInt32(cmp.Or(tuning.Retries, model.Given[uint32]{Value: retries}).Value),
			PerTryTimeout:                 durationpb.New(cmp.Or(route.Timeouts.ResponseHeader, tuning.PerTryTimeout, responseHeaderTimeout)),
			RetryHostPredicate:            f.retries,
			HostSelectionRetryMaxAttempts: hostAttempts,
			RetriableStatusCodes:          retryCodes(tuning.RetryCodes),
			RetryBackOff:                  backOff(tuning.BackOff),
		},
	}
}

// retryCodes are the status codes that are given.
func retryCodes(given [model.MaxRetryCodes]uint32) []uint32 {
	var codes []uint32
	for _, code := range given {
		if code != 0 {
			codes = append(codes, code)
		}
	}
	return codes
}

// backOff is nil for Envoy's own, 25 ms and ten times that.
func backOff(given model.BackOff) *routev3.RetryPolicy_RetryBackOff {
	if given.Base == 0 {
		return nil
	}
	made := &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(given.Base)}
	if given.Max > 0 {
		made.MaxInterval = durationpb.New(given.Max)
	}
	return made
}

// previousHosts has a request tried again on a pod that it wasn't tried on.
func previousHosts() ([]*routev3.RetryPolicy_RetryHostPredicate, error) {
	config, err := pack(&previoushostsv3.PreviousHostsPredicate{})
	if err != nil {
		return nil, err
	}
	return []*routev3.RetryPolicy_RetryHostPredicate{{
		Name:       "envoy.retry_host_predicates.previous_hosts",
		ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{TypedConfig: config},
	}}, nil
}
