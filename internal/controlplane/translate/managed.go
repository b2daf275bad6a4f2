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

// MirrorName returns the name of the cluster, and of its load assignment, for requests that the mirror routes of the
// HTTPScaledObject owner copy to service. It is ClusterName with one more segment. Its requests are not counted as
// demand (package metrics).
func MirrorName(owner, service model.Key) string { return ClusterName(owner, service) + "/mirror" }

// managedRoutes returns the header and mirror routes of a Route in order; base is the translated Route itself. Each
// match is an Envoy route, or several if there are cookies to set, unless no request of the Route can match it. A
// header route takes precedence over stickiness: it needs no cookie that decides which backend receives a request.
//
// A mirrored request has the Host of the original one. Envoy does not wait for its response and sends it to no
// client.
func (f scopeFactory) managedRoutes(
	route model.Route, services map[model.ServicePort]model.Endpoints, base *routev3.Route,
) []*routev3.Route {
	var translated []*routev3.Route
	for _, managed := range model.EffectiveManagedRoutes(route, services) {
		for _, match := range managed.Matches {
			combined, isPossible := managedMatch(route.Match, match)
			if !isPossible {
				continue
			}
			added := &routev3.Route{Name: base.GetName() + "/" + managed.Name, Match: combined}
			cookies := route.Cookies()
			if managed.IsMirror() {
				action := proto.CloneOf(base.GetRoute())
				action.RequestMirrorPolicies = []*routev3.RouteAction_RequestMirrorPolicy{mirrorPolicy(route, managed)}
				added.Action, added.TypedPerFilterConfig = &routev3.Route_Route{Route: action}, base.GetTypedPerFilterConfig()
			} else {
				action := f.actionWithLimits(route, services)
				action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: ClusterName(route.Owner, route.Canary().Service)}
				added.Action = &routev3.Route_Route{Route: action}
				cookies = route.AffinityCookies()
			}
			translated = append(translated, withCookies(added, cookies)...)
		}
	}
	return translated
}

// mirrorPolicy returns the policy that copies requests to the canary.
func mirrorPolicy(route model.Route, managed managedroute.Route) *routev3.RouteAction_RequestMirrorPolicy {
	return &routev3.RouteAction_RequestMirrorPolicy{
		Cluster: MirrorName(route.Owner, route.Canary().Service),
		RuntimeFraction: &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{
			Numerator: managed.MirrorPercent, Denominator: typev3.FractionalPercent_HUNDRED,
		}},
		DisableShadowHostSuffixAppend: true,
	}
}

// managedMatch combines a Match below its host with a further condition. The result is false if no request can match
// both.
func managedMatch(base model.Match, match managedroute.Match) (combined *routev3.RouteMatch, isPossible bool) {
	switch path := match.Path; path.Type {
	case managedroute.Exact:
		combined = routeMatch(base)
		combined.PathSpecifier = &routev3.RouteMatch_Path{Path: path.Value}
		isPossible = isWithin(path.Value, base.PathPrefix)
	case managedroute.Prefix:
		prefix := strings.TrimRight(path.Value, "/")
		if isPossible = isWithin(prefix, base.PathPrefix); isPossible && prefix != "" {
			base.PathPrefix = prefix
		}
		combined, isPossible = routeMatch(base), isPossible || isWithin(base.PathPrefix, prefix)
	case managedroute.Regex:
		// A path prefix leaves room only for a condition on path and query together.
		combined, isPossible = routeMatch(base), true
		combined.Headers = append(combined.Headers,
			headerMatcher(":path", managedroute.StringMatch{Type: path.Type, Value: managedroute.WithQuery(path.Value)}))
	default:
		combined, isPossible = routeMatch(base), true
	}
	if match.Method.Value != "" {
		combined.Headers = append(combined.Headers, headerMatcher(":method", match.Method))
	}
	for _, header := range match.Headers {
		combined.Headers = append(combined.Headers, headerMatcher(strings.ToLower(header.Name), header.StringMatch))
	}
	return combined, isPossible
}

// isWithin reports whether a path has a prefix, by whole segments. The prefix has no trailing slash, unless it is
// "/".
func isWithin(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// headerMatcher returns a condition on one header.
func headerMatcher(name string, condition managedroute.StringMatch) *routev3.HeaderMatcher {
	matcher := new(matcherv3.StringMatcher)
	switch condition.Type {
	case managedroute.Prefix:
		matcher.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: condition.Value}
	case managedroute.Regex:
		matcher.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: condition.Value}}
	default:
		matcher = exactString(condition.Value)
	}
	return &routev3.HeaderMatcher{
		Name:                 name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: matcher},
	}
}
