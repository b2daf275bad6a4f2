package translate

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// A request that has waited too long goes to another Service: the interceptor lets it go on with a mark, by which it
// finds a route of its own. The mark is metadata of the request within Envoy, which no client can set. It asks for
// another route only then: Envoy forgets the one that a request has if the answer to its call changes a header, and that of no
// other answer does.
const (
	// FailoverKey is the mark, a boolean in the metadata of the answer to a call; and the name of a header that no
	// request has, which the answer removes to have the route chosen anew.
	FailoverKey = "x-kedify-failover"
	// authorizationMetadata is the namespace of that metadata
	// (https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/http/http_filters/ext_authz_filter#dynamic-metadata).
	authorizationMetadata = "envoy.filters.http.ext_authz"
)

// FailoverName returns the name of the cluster, and of its load assignment, by which the HTTPScaledObject owner sends requests to service that have waited too
// long for the first endpoint: that of a cluster for its requests with one more part. What it is asked counts as nobody's demand (package demand).
func FailoverName(owner, service model.Key) string { return ClusterName(owner, service) + "/failover" }

// failoverRoutes is the route of those requests, if there may be any. It stands before the Route's others.
func (f scopeFactory) failoverRoutes(route model.Route, services map[model.ServicePort]model.Endpoints) []*routev3.Route {
	if f.hold.armed == nil || !model.FailsOver(route, services) {
		return nil
	}
	match := routeMatch(route.Match)
	match.DynamicMetadata = []*matcherv3.MetadataMatcher{{
		Filter: authorizationMetadata,
		Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: FailoverKey}}},
		Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}},
	}}
	action := f.boundedAction(route)
	action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: FailoverName(route.Owner, route.Failover.Service)}
	return []*routev3.Route{{
		Name: route.Owner.String() + "/failover", Match: match, Action: &routev3.Route_Route{Route: action},
	}}
}
