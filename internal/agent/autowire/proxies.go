package autowire

import (
	"net/netip"
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
	// Gone are those of Ready that take no connections any more, which endpoints may not tell yet.
	Gone []netip.AddrPort
}

// Ready are the ready endpoints for requests to a port of Service kedify-proxy, in their order.
func (p *Proxies) Ready(asked int32) (found []netip.AddrPort) {
	name, has := p.port(asked)
	if !has {
		return nil
	}
	for _, slice := range p.Endpoints {
		for _, port := range slice.Ports {
			if port.Port == nil || port.Name != nil && *port.Name != name {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				found = append(found, addresses(endpoint, uint16(*port.Port))...) //nolint:gosec // A port, as the API server has checked.
			}
		}
	}
	return found
}

// port is the name of a port of Service kedify-proxy, which has says whether it has.
func (p *Proxies) port(asked int32) (name string, has bool) {
	if p.Service == nil {
		return "", false
	}
	at := slices.IndexFunc(p.Service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == asked })
	if at < 0 {
		return "", false
	}
	return p.Service.Spec.Ports[at].Name, true
}

// addresses are those of an endpoint, if it is ready.
func addresses(endpoint discoveryv1.Endpoint, port uint16) (found []netip.AddrPort) {
	for _, text := range endpoint.Addresses {
		if address, err := netip.ParseAddr(text); err == nil && isReady(endpoint) { // else it is a name (AddressType FQDN)
			found = append(found, netip.AddrPortFrom(address, port))
		}
	}
	return found
}

// isReady says whether an endpoint is. Unknown means ready (discovery.k8s.io/v1).
func isReady(endpoint discoveryv1.Endpoint) bool {
	return endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
}

// Serve says whether a proxy is there for requests to a port, and is to stay: Service kedify-proxy has the port and a
// ready endpoint that takes connections, and nobody has decided on the end of all Pods behind it. Endpoints tell about that end when it has begun,
// and then load balancers learn of it when the agent does, with no other way to go.
func (p *Proxies) Serve(asked int32) bool {
	_, hasPort := p.port(asked)
	return hasPort && !p.areEnding() && slices.ContainsFunc(p.Endpoints, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool {
			return isReady(endpoint) && !p.isGone(endpoint)
		})
	})
}

// isGone says whether an endpoint's process is known to have ended.
func (p *Proxies) isGone(endpoint discoveryv1.Endpoint) bool {
	return slices.ContainsFunc(p.Gone, func(proxy netip.AddrPort) bool {
		return slices.ContainsFunc(endpoint.Addresses, func(text string) bool {
			address, err := netip.ParseAddr(text)
			return err == nil && address == proxy.Addr()
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
