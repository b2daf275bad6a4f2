package xds

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// inspectCluster reads whether a cluster gets endpoints by EDS. They have to have its name, so that who
// knows a cluster knows its endpoints.
func (r *resource) inspectCluster(c *clusterv3.Cluster) error {
	r.byEDS = c.GetType() == clusterv3.Cluster_EDS
	name := c.GetEdsClusterConfig().GetServiceName()
	if r.byEDS && name != "" && name != c.GetName() {
		return fmt.Errorf("cluster %q asks for the endpoints of %q, and has to for its own: %w", c.GetName(), name, ErrInconsistent)
	}
	return nil
}

// isServing tells whether an endpoint takes new requests: its health is not told, or told to be
// good (envoy/config/core/v3, HealthStatus). A degraded one serves while there is no better. A socket
// of the proxy's own machine (a pipe) is the proxy itself, which keeps requests and serves none.
func isServing(a *endpointv3.ClusterLoadAssignment) bool {
	for _, group := range a.GetEndpoints() {
		for _, endpoint := range group.GetLbEndpoints() {
			if endpoint.GetEndpoint().GetAddress().GetPipe() != nil {
				continue
			}
			switch endpoint.GetHealthStatus() {
			case corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DEGRADED:
				return true
			default:
			}
		}
	}
	return false
}

// clustersOf returns the names of all clusters that the route configuration may
// send a request to, sorted and without repetition. These are the places of
// envoy/config/route/v3 that hold a literal cluster name: cluster,
// weighted_clusters and request_mirror_policies on each of the three levels. An
// entry of weight 0 counts: a runtime override could give it requests.
func clustersOf(c *routev3.RouteConfiguration) []string {
	names := mirrors(nil, c.GetRequestMirrorPolicies())
	for _, host := range c.GetVirtualHosts() {
		names = mirrors(names, host.GetRequestMirrorPolicies())
		for _, route := range host.GetRoutes() {
			names = targets(names, route.GetRoute())
		}
	}
	slices.Sort(names)
	return slices.Clip(slices.Compact(names))
}

// targets appends the clusters of one route's action; a redirect or a direct
// response has none.
func targets(names []string, action *routev3.RouteAction) []string {
	if name := action.GetCluster(); name != "" {
		names = append(names, name)
	}
	for _, weighted := range action.GetWeightedClusters().GetClusters() {
		if name := weighted.GetName(); name != "" {
			names = append(names, name)
		}
	}
	return mirrors(names, action.GetRequestMirrorPolicies())
}

// mirrors appends the clusters that get copies of requests.
func mirrors(names []string, policies []*routev3.RouteAction_RequestMirrorPolicy) []string {
	for _, policy := range policies {
		if name := policy.GetCluster(); name != "" {
			names = append(names, name)
		}
	}
	return names
}
