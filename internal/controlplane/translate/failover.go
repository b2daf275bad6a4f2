package translate

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// A request whose cold-start timeout has expired goes to another Service. The interceptor lets it continue with a
// mark that selects another route. The mark is metadata of the request within Envoy, which no client can set. Envoy
// selects a route again only if the ext_authz response changes a header, which no other response does.
const (
	// FailoverKey is the mark, a boolean in the metadata of the ext_authz response. It is also the name of a header
	// that no request has; the response removes it, so that Envoy selects the route again.
	FailoverKey = "x-kedify-failover"
	// authorizationMetadata is the namespace of that metadata
	// (https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/http/http_filters/ext_authz_filter#dynamic-metadata).
	authorizationMetadata = "envoy.filters.http.ext_authz"
)

// FailoverName returns the name of the cluster, and of its load assignment, for requests from the HTTPScaledObject
// owner to the failover service. It is ClusterName with one more segment. Its requests are not counted as demand
// (package metrics).
func FailoverName(owner, service model.Key) string { return ClusterName(owner, service) + "/failover" }

// failoverRoutes returns the route of those requests if the Route has a failover Service. It precedes the other
// routes of the Route.
func (f scopeFactory) failoverRoutes(
	route model.Route, services map[model.ServicePort]model.Endpoints,
) []*routev3.Route {
	if f.holdConfigs.hold == nil || !model.FailsOver(route, services) {
		return nil
	}
	match := routeMatch(route.Match)
	match.DynamicMetadata = []*matcherv3.MetadataMatcher{{
		Filter: authorizationMetadata,
		Path: []*matcherv3.MetadataMatcher_PathSegment{{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: FailoverKey},
		}},
		Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}},
	}}
	action := f.actionWithLimits(route, services)
	// The request is not queued any more. Envoy applies the timeout from the next byte on.
	action.IdleTimeout = timeoutOf(idleTimeout(route))
	action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: FailoverName(route.Owner, route.Failover.Service)}
	return []*routev3.Route{{
		Name: route.Owner.String() + "/failover", Match: match, Action: &routev3.Route_Route{Route: action},
	}}
}
