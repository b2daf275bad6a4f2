package translate

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// The proxies answer a part of an object's requests themselves (model.Route.Static), as direct responses of their
// routes. These reach no cluster, so they are not counted as demand, and pass no filter that queues requests.
//
// The order of the routes of a Route is: health checks, static responses, failover, header and mirror routes, the
// traffic split.
const (
	// ReasonStatic is the value of ReasonHeader for a static response, and ReasonPlaceholder for that to a request that
	// wakes the workload.
	ReasonStatic      = "static-response"
	ReasonPlaceholder = "placeholder"
	// staticName is the last segment of the names of routes and clusters.
	staticName = "static"
	// defaultMaxBody is Envoy's maximum size of the body of a direct response in bytes, unless the route configuration has
	// another one.
	defaultMaxBody = 4096
)

// UncountedName returns the name of the cluster, and of its load assignment, for requests from the HTTPScaledObject
// owner to service that are not counted as demand. It is ClusterName with one more segment (package metrics).
func UncountedName(owner, service model.Key) string {
	return ClusterName(owner, service) + "/" + staticName
}

// staticRoutes returns the routes for the static responses of a Route, in order; forwarded are the Route's header and
// mirror routes and its traffic split. While a backend is available, a static response of mode WhenUnavailable is
// replaced by forwarded to clusters that are not counted as demand.
func (f scopeFactory) staticRoutes(
	route model.Route, services map[model.ServicePort]model.Endpoints, forwarded []*routev3.Route,
) []*routev3.Route {
	if len(route.Static) == 0 && route.Placeholder == nil {
		return nil
	}
	var translated []*routev3.Route
	isUnavailable, name := model.IsUnavailable(route, services), route.Owner.String()+"/"+staticName
	for _, static := range route.Static {
		isGiven := static.Mode == model.StaticAlways || isUnavailable
		for _, match := range static.Matches {
			narrowed := narrow(routeMatch(route.Match), route.Match.Host, match)
			switch {
			case narrowed == nil:
			case isGiven:
				translated = append(translated, responseRoutes(name, narrowed, static.Response, ReasonStatic)...)
			default:
				translated = append(translated, uncountedRoutes(forwarded, route.Match.Host, match)...)
			}
		}
	}
	isWaiting := f.holdConfigs.hold != nil && slices.Contains(model.WaitsForEndpoint(route, services), true)
	if route.Placeholder != nil && isUnavailable && !isWaiting { // Otherwise the interceptor gives the response.
		translated = append(translated,
			responseRoutes(name, routeMatch(route.Match), *route.Placeholder, ReasonPlaceholder)...)
	}
	return translated
}

// responseRoutes returns the routes with a response: one for each body, and the last one for all requests.
func responseRoutes(
	name string, match *routev3.RouteMatch, response model.StaticResponse, reason string,
) []*routev3.Route {
	choices := response.Choices()
	routes := make([]*routev3.Route, 0, len(choices))
	for _, choice := range choices {
		chosen := proto.CloneOf(match)
		if choice.Accept != "" {
			except := regexHeader("accept", choice.Except)
			except.InvertMatch = true
			chosen.Headers = append(chosen.Headers, regexHeader("accept", choice.Accept), except)
		}
		route := &routev3.Route{Name: name, Match: chosen, ResponseHeadersToAdd: responseHeaders(response, choice, reason)}
		if response.Location != "" {
			route.Action = &routev3.Route_Redirect{Redirect: redirectAction(response)}
		} else {
			direct := &routev3.DirectResponseAction{Status: response.Status}
			if choice.Body.Text != "" {
				direct.Body = inlineBody(choice.Body.Text)
			}
			route.Action = &routev3.Route_DirectResponse{DirectResponse: direct}
		}
		routes = append(routes, route)
	}
	return routes
}

// StaticHeaders returns the headers of a static response with one of its bodies. The headers of the response take
// precedence.
func StaticHeaders(response model.StaticResponse, body model.StaticBody, reason string) []model.StaticHeader {
	headers := []model.StaticHeader{{Name: strings.ToLower(ReasonHeader), Value: reason}}
	if body.ContentType != "" {
		headers = append(headers, model.StaticHeader{Name: "content-type", Value: body.ContentType})
	}
	if len(response.Bodies) > 1 {
		headers = append(headers, model.StaticHeader{Name: "vary", Value: "Accept"})
	}
	return slices.Concat(slices.DeleteFunc(headers, func(header model.StaticHeader) bool {
		return slices.ContainsFunc(response.Headers, func(own model.StaticHeader) bool { return own.Name == header.Name })
	}), response.Headers)
}

// responseHeaders converts the headers of a response. Envoy replaces variables such as %START_TIME% in their values, and
// %% by %.
func responseHeaders(
	response model.StaticResponse, choice model.StaticChoice, reason string,
) []*corev3.HeaderValueOption {
	var options []*corev3.HeaderValueOption
	for _, header := range StaticHeaders(response, choice.Body, reason) {
		options = append(options, &corev3.HeaderValueOption{
			Header:         &corev3.HeaderValue{Key: header.Name, Value: strings.ReplaceAll(header.Value, "%", "%%")},
			AppendAction:   corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			KeepEmptyValue: true,
		})
	}
	return options
}

// redirectAction returns the redirect of a response. A location with a path replaces path and query of the request.
func redirectAction(response model.StaticResponse) *routev3.RedirectAction {
	target, err := model.ParseLocation(response.Location)
	if err != nil {
		target = &url.URL{Path: "/"} // Package resolve has validated it.
	}
	action := &routev3.RedirectAction{
		HostRedirect: target.Hostname(), ResponseCode: redirectCodes()[response.Status],
	}
	if strings.Contains(action.GetHostRedirect(), ":") {
		action.HostRedirect = "[" + action.GetHostRedirect() + "]"
	}
	if target.Scheme != "" {
		action.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: target.Scheme}
		action.PortRedirect = portOf(target)
	}
	if path := target.RequestURI(); target.Path != "" || target.RawQuery != "" {
		action.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: path}
		action.StripQuery = target.RawQuery == ""
	}
	return action
}

// portOf returns the port of a URL, 0 for none.
func portOf(target *url.URL) uint32 {
	port, err := strconv.ParseUint(target.Port(), 10, 16)
	if err != nil {
		return 0
	}
	return uint32(port)
}

// redirectCodes returns Envoy's values of status codes.
func redirectCodes() map[uint32]routev3.RedirectAction_RedirectResponseCode {
	return map[uint32]routev3.RedirectAction_RedirectResponseCode{
		http.StatusMovedPermanently:  routev3.RedirectAction_MOVED_PERMANENTLY,
		http.StatusFound:             routev3.RedirectAction_FOUND,
		http.StatusSeeOther:          routev3.RedirectAction_SEE_OTHER,
		http.StatusTemporaryRedirect: routev3.RedirectAction_TEMPORARY_REDIRECT,
		http.StatusPermanentRedirect: routev3.RedirectAction_PERMANENT_REDIRECT,
	}
}

// uncountedRoutes returns copies of routes below host for the requests that fulfill a condition, too.
func uncountedRoutes(forwarded []*routev3.Route, host model.Host, condition model.StaticMatch) []*routev3.Route {
	var routes []*routev3.Route
	for _, original := range forwarded {
		if narrowed := narrow(original.GetMatch(), host, condition); narrowed != nil {
			routes = append(routes, uncounted(original, narrowed))
		}
	}
	return routes
}

// uncounted returns a copy of a route with another match whose requests are not counted as demand. They do not wait for
// an endpoint.
func uncounted(original *routev3.Route, match *routev3.RouteMatch) *routev3.Route {
	route := proto.CloneOf(original)
	route.Name, route.Match, route.TypedPerFilterConfig = original.GetName()+"/"+staticName, match, nil
	switch target := route.GetRoute().GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		target.Cluster += "/" + staticName
	case *routev3.RouteAction_WeightedClusters:
		for _, cluster := range target.WeightedClusters.GetClusters() {
			cluster.Name += "/" + staticName
			cluster.TypedPerFilterConfig = nil
		}
	}
	return route
}

// narrow combines a match below host with a further condition. The result is nil if no request can match both.
func narrow(base *routev3.RouteMatch, host model.Host, condition model.StaticMatch) *routev3.RouteMatch {
	isAny := condition.Host == "" || condition.Host.Covers(host)
	if !isAny && !host.Covers(condition.Host) {
		return nil
	}
	narrowed := proto.CloneOf(base)
	prefix, exact := base.GetPrefix()+base.GetPathSeparatedPrefix(), base.GetPath()
	switch {
	case condition.Path != "":
		if exact != "" && exact != condition.Path || exact == "" && !isWithin(condition.Path, prefix) {
			return nil
		}
		narrowed.PathSpecifier = &routev3.RouteMatch_Path{Path: condition.Path}
	case condition.PathPrefix == "" || condition.PathPrefix == "/":
	case exact != "":
		if !isWithin(exact, condition.PathPrefix) {
			return nil
		}
	case isWithin(condition.PathPrefix, prefix):
		narrowed.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: condition.PathPrefix}
	case !isWithin(prefix, condition.PathPrefix):
		return nil
	}
	narrowed.Headers = append(narrowed.Headers,
		routeMatch(model.Match{PathPrefix: "/", Headers: condition.Headers}).GetHeaders()...)
	if condition.PathRegex != "" {
		narrowed.Headers = append(narrowed.Headers, regexHeader(":path", managedroute.WithQuery(condition.PathRegex)))
	}
	if !isAny {
		narrowed.Headers = append(narrowed.Headers, regexHeader(":authority", hostExpression(condition.Host)))
	}
	return narrowed
}

// hostExpression returns the regular expression for the host of a request, with or without a port.
func hostExpression(host model.Host) string {
	name, isWildcard := strings.CutPrefix(string(host), "*.")
	expression := `(?i)` + regexp.QuoteMeta(name) + `\.?(?::\d*)?`
	if isWildcard {
		expression = `(?i).+\.` + regexp.QuoteMeta(name) + `\.?(?::\d*)?`
	}
	return expression
}

// regexHeader returns a condition on one header. A missing header does not fulfill it.
func regexHeader(name, expression string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: expression}},
		}},
	}
}

// allowBodies raises the maximum size of the bodies of direct responses if a route needs it.
func allowBodies(config *routev3.RouteConfiguration) {
	for _, host := range config.GetVirtualHosts() {
		for _, route := range host.GetRoutes() {
			if len(route.GetDirectResponse().GetBody().GetInlineString()) > defaultMaxBody {
				config.MaxDirectResponseBodySizeBytes = wrapperspb.UInt32(model.MaxStaticBody)
				return
			}
		}
	}
}
