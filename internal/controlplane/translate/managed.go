package translate

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// MirrorName returns the name of the cluster, and of its load assignment, that carries the copies which mirror routes of the HTTPScaledObject owner send to
// service: that of the cluster for its requests with one more part. Requests for a cluster of such a name count as nobody's demand (package demand).
func MirrorName(owner, service model.Key) string { return ClusterName(owner, service) + "/mirror" }

// managedRoutes are the header and mirror routes of a Route whose own translation is given, in order. Each match is an Envoy route, unless no request of the
// Route can fulfil it.
//
// A copy has the Host of the request that it is made of. Envoy waits for no answer to it, and no client gets one.
func (f scopeFactory) managedRoutes(route model.Route, services map[model.ServicePort]model.Endpoints, own *routev3.Route) []*routev3.Route {
	var translated []*routev3.Route
	for _, managed := range model.EffectiveManagedRoutes(route, services) {
		for _, match := range managed.Matches {
			both, possible := managedMatch(route.Match, match)
			if !possible {
				continue
			}
			each := &routev3.Route{Name: own.GetName() + "/" + managed.Name, Match: both}
			if managed.IsMirror() {
				action := proto.CloneOf(own.GetRoute())
				action.RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{mirrorPolicy(route, managed)}
				each.Action, each.TypedPerFilterConfig = &routev3.Route_Route{Route: action}, own.GetTypedPerFilterConfig()
			} else {
				action := f.boundedAction(route)
				action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: ClusterName(route.Owner, route.Canary().Service)}
				each.Action = &routev3.Route_Route{Route: action}
			}
			translated = append(translated, each)
		}
	}
	return translated
}

// mirrorPolicy has copies made for the canary.
func mirrorPolicy(route model.Route, managed managedroute.Route) *routev3.RouteAction_RequestMirrorPolicy {
	return &routev3.RouteAction_RequestMirrorPolicy{
		Cluster: MirrorName(route.Owner, route.Canary().Service),
		RuntimeFraction: &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{
			Numerator: managed.MirrorPercent, Denominator: typev3.FractionalPercent_HUNDRED,
		}},
		DisableShadowHostSuffixAppend: true,
	}
}

// managedMatch is a Match below its host with a further condition. It is false when no request can fulfil both.
func managedMatch(of model.Match, match managedroute.Match) (both *routev3.RouteMatch, possible bool) {
	switch path := match.Path; path.Type {
	case managedroute.Exact:
		both = routeMatch(of)
		both.PathSpecifier = &routev3.RouteMatch_Path{Path: path.Value}
		possible = isWithin(path.Value, of.PathPrefix)
	case managedroute.Prefix:
		prefix := strings.TrimRight(path.Value, "/")
		if possible = isWithin(prefix, of.PathPrefix); possible && prefix != "" {
			of.PathPrefix = prefix
		}
		both, possible = routeMatch(of), possible || isWithin(of.PathPrefix, prefix)
	case managedroute.Regex:
		// Beside the prefix there is room for a condition on path and query together only.
		both, possible = routeMatch(of), true
		both.Headers = append(both.Headers, headerMatcher(":path", managedroute.StringMatch{Type: path.Type, Value: managedroute.WithQuery(path.Value)}))
	default:
		both, possible = routeMatch(of), true
	}
	if match.Method.Value != "" {
		both.Headers = append(both.Headers, headerMatcher(":method", match.Method))
	}
	for _, header := range match.Headers {
		both.Headers = append(both.Headers, headerMatcher(strings.ToLower(header.Name), header.StringMatch))
	}
	return both, possible
}

// isWithin says whether a path has a prefix, by whole segments. No slash is at the end of the prefix, unless it is "/".
func isWithin(path, prefix string) bool {
	rest, has := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	return has && (rest == "" || rest[0] == '/')
}

// headerMatcher is a condition on one header.
func headerMatcher(name string, condition managedroute.StringMatch) *routev3.HeaderMatcher {
	matcher := new(matcherv3.StringMatcher)
	switch condition.Type {
	case managedroute.Prefix:
		matcher.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: condition.Value}
	case managedroute.Regex:
		matcher.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: condition.Value}}
	default:
		matcher = exactly(condition.Value)
	}
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: matcher}}
}
