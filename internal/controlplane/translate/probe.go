package translate

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// A health check of a load balancer or a kubelet is recognized by its User-Agent, which any client can send. The
// proxy therefore answers it only if there is no workload that could:
//
//   - no object has the host, such as the address that load balancers use by default,
//   - the requests of the route wait for a first endpoint, which a health check must not start, or
//   - the object has a path for health checks that are answered statically (model.Route.HealthPath), and this is the
//     path.
//
// Routes answer it, so a request to a workload with endpoints passes no filter for this. The answer is 200 and must
// not be cached. It reaches no cluster, so it is not counted as demand.
const (
	// ReasonHeader is the response header with the reason for a response that is not the workload's.
	ReasonHeader = "X-Kedify-Reason"
	// ReasonProbe is the value for a health check.
	ReasonProbe = "probe"
	// ReasonTimeout is the value for a response that did not begin, or did not continue, in time.
	ReasonTimeout = "timeout"
	// ReasonReset is the value for a connection to the workload that ended before the response, or for an invalid
	// response.
	ReasonReset = "reset"
	// ProbeRouteName is the name of the route for hosts without an object, and the last segment of the names of the
	// other ones.
	ProbeRouteName = "probe"
	// probeFilterName is the name of the filter of the fallback listener.
	probeFilterName = "kedify.probe"
)

// probeAgents returns the products in the User-Agent of health checks, which a slash follows.
func probeAgents() []string { return []string{"kube-probe", "ELB-HealthChecker", "GoogleHC"} }

// unknownHosts returns the virtual host for hosts that no object has. It answers health checks only.
func unknownHosts() *routev3.VirtualHost {
	everything := model.Match{Host: model.AnyHost, PathPrefix: "/"}
	return &routev3.VirtualHost{
		Name:    ProbeRouteName,
		Domains: []string{string(model.AnyHost)},
		Routes:  []*routev3.Route{probeRoute(ProbeRouteName, routeMatch(everything))},
	}
}

// probeRoutes returns the route that answers the health checks of a Route, if any. It precedes the other routes of
// the Route.
func probeRoutes(route model.Route, services map[model.ServicePort]model.Endpoints) []*routev3.Route {
	match := routeMatch(route.Match)
	switch {
	case slices.Contains(model.WaitsForEndpoint(route, services), true):
	case route.HealthPath != "" && isWithin(route.HealthPath, route.Match.PathPrefix):
		match.PathSpecifier = &routev3.RouteMatch_Path{Path: route.HealthPath}
	default:
		return nil
	}
	return []*routev3.Route{probeRoute(route.Owner.String()+"/"+ProbeRouteName, match)}
}

// probeRoute returns a route that answers the health checks that match.
func probeRoute(name string, match *routev3.RouteMatch) *routev3.Route {
	match.Headers = append(match.Headers, probeUserAgent())
	var headers []*corev3.HeaderValueOption
	for _, header := range probeHeaders() {
		headers = append(headers, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: header[0], Value: header[1]},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	response := &routev3.DirectResponseAction{Status: http.StatusOK}
	return &routev3.Route{
		Name: name, Match: match, Action: &routev3.Route_DirectResponse{DirectResponse: response},
		ResponseHeadersToAdd: headers,
	}
}

// probeHeaders returns the headers of the answer: names and values.
func probeHeaders() [][2]string {
	return [][2]string{{ReasonHeader, ReasonProbe}, {"Cache-Control", "no-store"}}
}

// probeUserAgent matches health checks.
func probeUserAgent() *routev3.HeaderMatcher {
	var names []string
	for _, agent := range probeAgents() {
		names = append(names, regexp.QuoteMeta(agent))
	}
	return &routev3.HeaderMatcher{
		Name: "user-agent",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{
				Regex: "(" + strings.Join(names, "|") + ")/.*",
			}},
		}},
	}
}

// probeFilter returns the filter of the fallback listener that answers every health check. All its requests are for
// workloads without endpoints. Their routes may be older, and then have no route for health checks yet.
func probeFilter() (*hcmv3.HttpFilter, error) {
	var agents, headers strings.Builder
	for _, agent := range probeAgents() {
		fmt.Fprintf(&agents, "%q, ", agent+"/")
	}
	for _, header := range probeHeaders() {
		fmt.Fprintf(&headers, ", [%q] = %q", strings.ToLower(header[0]), header[1])
	}
	//nolint:dupword // Lua ends each block by end.
	return luaFilter(probeFilterName, fmt.Sprintf(`function envoy_on_request(handle)
  local agent = handle:headers():get("user-agent") or ""
  for _, prefix in ipairs({%s}) do
    if string.sub(agent, 1, #prefix) == prefix then
      handle:respond({[":status"] = "%d"%s}, "")
      return
    end
  end
end
`, strings.TrimSuffix(agents.String(), ", "), http.StatusOK, headers.String()))
}
