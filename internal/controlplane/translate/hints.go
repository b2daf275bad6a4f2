package translate

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// appliesHints reports whether the clusters of a Route prefer endpoints by their hints. With session affinity they do
// not: proxies in different zones would send the requests of one client to different Pods.
func (o Options) appliesHints(route model.Route) bool {
	return o.TopologyHints && route.Affinity.IsZero()
}

// hintedGroups returns the ready endpoints in a group for each hint. Its locality contains the zones and the nodes of
// the proxies that the hint names, not those of the endpoints. All groups have the same priority: the discovery server
// sets the priorities for each proxy, see package session. Without locality weights, which no cluster has, Envoy does
// not distinguish localities of the same priority.
//
// Draining endpoints are in the group without a locality, which gets the lowest priority. In the priority of their zone
// they would count as unhealthy, and while many of them drain, requests would leave the zone.
func hintedGroups(endpoints model.Endpoints) []*endpointv3.LocalityLbEndpoints {
	byHint := map[model.Hint]*endpointv3.LocalityLbEndpoints{}
	for i, at := range endpoints.Ready {
		hint := endpoints.Hints[i]
		if byHint[hint] == nil {
			locality := &corev3.Locality{Zone: hint.Zones, SubZone: hint.Nodes}
			byHint[hint] = &endpointv3.LocalityLbEndpoints{Locality: locality}
		}
		byHint[hint].LbEndpoints = append(byHint[hint].GetLbEndpoints(), lbEndpoint(at, corev3.HealthStatus_HEALTHY))
	}
	groups := make([]*endpointv3.LocalityLbEndpoints, 0, len(byHint)+1)
	for _, hint := range slices.SortedFunc(maps.Keys(byHint), model.Hint.Compare) {
		groups = append(groups, byHint[hint])
	}
	return groups
}

// retryPriority makes a retry select a priority that was not tried before, if the endpoints of a destination have
// several: the only Pod of a zone would be selected again until it is ejected.
func (f scopeFactory) retryPriority(
	route model.Route, services map[model.ServicePort]model.Endpoints,
) *routev3.RetryPolicy_RetryPriority {
	hasHints := func(port model.ServicePort) bool { return len(services[port].Hints) > 0 }
	if f.otherPriority == nil || !route.Affinity.IsZero() || !slices.ContainsFunc(route.Destinations(), hasHints) {
		return nil
	}
	return f.otherPriority
}

// otherPriority returns the configuration of retryPriority: the first retry already selects another priority. When all
// are tried, all are possible again.
func otherPriority() (*routev3.RetryPolicy_RetryPriority, error) {
	config, err := pack(&previousprioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 1})
	if err != nil {
		return nil, err
	}
	return &routev3.RetryPolicy_RetryPriority{
		Name:       "envoy.retry_priorities.previous_priorities",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{TypedConfig: config},
	}, nil
}
