package session

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// inspectCluster reads whether a cluster uses EDS. Its endpoints must have the name of the cluster: a session finds
// them by that name.
func (r *Resource) inspectCluster(c *clusterv3.Cluster) error {
	r.usesEDS = c.GetType() == clusterv3.Cluster_EDS
	name := c.GetEdsClusterConfig().GetServiceName()
	if r.usesEDS && name != "" && name != c.GetName() {
		return fmt.Errorf("cluster %q: EDS service name %q: must be the name of the cluster: %w",
			c.GetName(), name, ErrInconsistent)
	}
	return nil
}

// acceptsRequests reports whether an endpoint accepts new requests, and whether the proxy itself queues them. The health
// of an accepting endpoint is unknown or good (envoy/config/core/v3, HealthStatus). A degraded endpoint accepts requests
// if no other does. A pipe is a socket of the proxy, which queues requests and serves none.
func acceptsRequests(a *endpointv3.ClusterLoadAssignment) (serving, queueing bool) {
	for _, group := range a.GetEndpoints() {
		for _, endpoint := range group.GetLbEndpoints() {
			switch endpoint.GetHealthStatus() {
			case corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DEGRADED:
				isPipe := endpoint.GetEndpoint().GetAddress().GetPipe() != nil
				serving, queueing = serving || !isPipe, queueing || isPipe
			default:
			}
		}
	}
	return serving, queueing
}

// clustersOf returns the names of all clusters to which the route configuration may send a request, sorted and unique.
// These are the fields of envoy/config/route/v3 with a literal cluster name: cluster, weighted_clusters and
// request_mirror_policies on each of the three levels. An entry of weight 0 counts: a runtime override could raise its
// weight.
func clustersOf(c *routev3.RouteConfiguration) []string {
	names := appendMirrors(nil, c.GetRequestMirrorPolicies())
	for _, host := range c.GetVirtualHosts() {
		names = appendMirrors(names, host.GetRequestMirrorPolicies())
		for _, route := range host.GetRoutes() {
			names = appendTargets(names, route.GetRoute())
		}
	}
	slices.Sort(names)
	return slices.Clip(slices.Compact(names))
}

// appendTargets appends the clusters of one route action. A redirect or a direct response has none.
func appendTargets(names []string, action *routev3.RouteAction) []string {
	if name := action.GetCluster(); name != "" {
		names = append(names, name)
	}
	for _, weighted := range action.GetWeightedClusters().GetClusters() {
		if name := weighted.GetName(); name != "" {
			names = append(names, name)
		}
	}
	return appendMirrors(names, action.GetRequestMirrorPolicies())
}

// appendMirrors appends the clusters that receive copies of requests.
func appendMirrors(names []string, policies []*routev3.RouteAction_RequestMirrorPolicy) []string {
	for _, policy := range policies {
		if name := policy.GetCluster(); name != "" {
			names = append(names, name)
		}
	}
	return names
}
