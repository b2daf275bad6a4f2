package translate

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// RouteConfigName is the name of the one route configuration.
const RouteConfigName = "kedify-proxy"

const (
	// streamIdleTimeout is how long a request or an upgraded connection may be silent in both directions.
	streamIdleTimeout = time.Hour
	// responseHeaderTimeout is the default of ir.Timeouts.ResponseHeader.
	responseHeaderTimeout = 30 * time.Second
)

// errNoWeight says that a Route has no backend that may get a request.
var errNoWeight = errors.New("no backend with a weight above zero")

// routeConfiguration has one virtual host per host. What fits none is answered with 404 by Envoy.
func routeConfiguration(config ir.Config) (*routev3.RouteConfiguration, error) {
	table := emptyTable()
	for first := 0; first < len(config.Routes); {
		host, next := config.Routes[first].Match.Host, first+1
		for next < len(config.Routes) && config.Routes[next].Match.Host == host {
			next++
		}
		translated, err := virtualHost(host, config.Routes[first:next], config.Services)
		if err != nil {
			return nil, err
		}
		table.VirtualHosts = append(table.VirtualHosts, translated)
		first = next
	}
	return table, nil
}

// emptyTable is the route configuration without virtual hosts.
func emptyTable() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: RouteConfigName, IgnorePortInHostMatching: true}
}

// virtualHost has all the Routes of one host. Its name is the host.
func virtualHost(host ir.Host, routes []ir.Route, services map[ir.ServicePort]ir.Endpoints) (*routev3.VirtualHost, error) {
	translated := &routev3.VirtualHost{Name: string(host), Domains: domains(host), Routes: make([]*routev3.Route, 0, len(routes))}
	for _, route := range routes {
		one, err := envoyRoute(route, services)
		if err != nil {
			return nil, fmt.Errorf("%s for %s%s: %w", route.Owner, host, route.Match.PathPrefix, err)
		}
		translated.Routes = append(translated.Routes, one)
	}
	return translated, nil
}

// domains are the spellings of a host. Envoy itself looks hosts up in lower case, and without port as the route configuration says, but a trailing dot is
// a name of its own to it.
func domains(host ir.Host) []string {
	if host == ir.AnyHost {
		return []string{string(host)}
	}
	return []string{string(host), string(host) + "."}
}

// envoyRoute carries the owner's name, which the access log prints.
func envoyRoute(route ir.Route, services map[ir.ServicePort]ir.Endpoints) (*routev3.Route, error) {
	action, err := routeAction(route, services)
	if err != nil {
		return nil, err
	}
	return &routev3.Route{
		Name:   route.Owner.String(),
		Match:  routeMatch(route.Match),
		Action: &routev3.Route_Route{Route: action},
	}, nil
}

// routeMatch is the part of a Match below its host.
func routeMatch(match ir.Match) *routev3.RouteMatch {
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

// routeAction sends requests to one cluster, or to several by their effective weights. Clusters of weight 0 stay in the list, where operators look for
// them.
//
// The time to the headers of the response is bounded by the timeout per try, which Envoy stops counting once the response has begun. The timeout of the
// route, which would count on and cut streams, is off. A retry policy is where Envoy has that setting; this one never retries, because it names no
// condition to retry on and allows no retries.
func routeAction(route ir.Route, services map[ir.ServicePort]ir.Endpoints) (*routev3.RouteAction, error) {
	action := &routev3.RouteAction{
		Timeout:     durationpb.New(0),
		IdleTimeout: durationpb.New(streamIdleTimeout),
		RetryPolicy: &routev3.RetryPolicy{
			NumRetries:    wrapperspb.UInt32(0),
			PerTryTimeout: durationpb.New(cmp.Or(route.Timeouts.ResponseHeader, responseHeaderTimeout)),
		},
	}
	if len(route.Backends) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: ClusterName(route.Owner, route.Backends[0].Service)}
		return action, nil
	}
	var sum uint64
	weighted := new(routev3.WeightedCluster)
	for i, weight := range ir.EffectiveWeights(route.Backends, services) {
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
