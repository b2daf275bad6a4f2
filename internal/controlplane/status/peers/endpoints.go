package peers

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
)

const (
	// ServiceName is the Service in front of all replicas: the one that proxies connect to.
	ServiceName = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink"
	// PortName is the name of the Service's port for the control plane, which replicas use among each other too.
	PortName = "control-plane"
)

// Others returns the replicas that are endpoints in endpointSlices, sorted by name, without the one named self.
func Others(endpointSlices []*discoveryv1.EndpointSlice, self string) []endpoints.Pod {
	return slices.DeleteFunc(
		endpoints.Pods(endpointSlices, PortName), func(pod endpoints.Pod) bool { return pod.Name == self },
	)
}
