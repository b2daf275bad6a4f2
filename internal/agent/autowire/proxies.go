package autowire

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Proxies are what says whether requests that go to the proxies of a namespace find one.
type Proxies struct {
	// Service is Service kedify-proxy, nil if there is none, and Endpoints are its EndpointSlices.
	Service   *corev1.Service
	Endpoints []discoveryv1.EndpointSlice
	// Deployment is Deployment kedify-proxy, nil if there is none. Proxies of somebody else's may be something else.
	Deployment *appsv1.Deployment
}

// Serve says whether a proxy is there for requests to a port, and is to stay: Service kedify-proxy has the port and a
// ready endpoint, and nobody has decided on the end of all Pods behind it. Endpoints tell about that end when it has begun,
// and then load balancers learn of it when the agent does, with no other way to go.
func (p *Proxies) Serve(asked int32) bool {
	hasPort := p.Service != nil && slices.ContainsFunc(p.Service.Spec.Ports, func(port corev1.ServicePort) bool {
		return port.Port == asked
	})
	return hasPort && !p.areEnding() && slices.ContainsFunc(p.Endpoints, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool {
			// Unknown means ready (discovery.k8s.io/v1).
			return endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		})
	})
}

// areEnding says whether all Pods that are there are about to end, as far as is known. The agent's own proxies are
// always of a Deployment: where that is gone, its Pods follow.
func (p *Proxies) areEnding() bool {
	if p.Deployment == nil {
		return p.Service.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	}
	return AreEnding(p.Deployment)
}

// AreEnding says whether the Pods that are behind Service kedify-proxy are about to end, by what its Deployment says.
func AreEnding(of *appsv1.Deployment) bool {
	if of.DeletionTimestamp != nil || of.Spec.Replicas != nil && *of.Spec.Replicas == 0 {
		return of.Status.Replicas > 0 // else whatever is behind the Service is not this Deployment's
	}
	// A new one in the place of one that was deleted, whose Pods these are.
	return of.Status.ObservedGeneration > 0 && of.Status.ReadyReplicas == 0
}
