package autowire

import (
	"maps"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Proxies is the state that determines whether the proxies of a namespace can serve requests.
type Proxies struct {
	// Service is Service kedify-proxy, nil if it does not exist. Endpoints are its EndpointSlices.
	Service   *corev1.Service
	Endpoints []discoveryv1.EndpointSlice
	// Deployment is Deployment kedify-proxy, nil if it does not exist. Proxies that the agent did not install may
	// be another kind of workload.
	Deployment *appsv1.Deployment
	// Gone are the ready addresses that no longer accept connections, possibly before the EndpointSlices show it.
	Gone []netip.AddrPort
}

// ReadyAddrs returns the ready endpoints for a port of Service kedify-proxy, in order.
func (p *Proxies) ReadyAddrs(number int32) (addrs []netip.AddrPort) {
	name, has := p.portName(number)
	if !has {
		return nil
	}
	for _, slice := range p.Endpoints {
		for _, port := range slice.Ports {
			if port.Port == nil || port.Name != nil && *port.Name != name {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				number := uint16(*port.Port) //nolint:gosec // The API server has validated the range.
				addrs = append(addrs, addresses(endpoint, number)...)
			}
		}
	}
	return addrs
}

// portName returns the name of a port of Service kedify-proxy, and whether the Service has the port.
func (p *Proxies) portName(number int32) (name string, has bool) {
	if p.Service == nil {
		return "", false
	}
	at := slices.IndexFunc(p.Service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == number })
	if at < 0 {
		return "", false
	}
	return p.Service.Spec.Ports[at].Name, true
}

// addresses returns the addresses of an endpoint if it is ready.
func addresses(endpoint discoveryv1.Endpoint, port uint16) (addrs []netip.AddrPort) {
	for _, text := range endpoint.Addresses {
		if address, err := netip.ParseAddr(text); err == nil && isReady(endpoint) { // AddressType FQDN has names
			addrs = append(addrs, netip.AddrPortFrom(address, port))
		}
	}
	return addrs
}

// isReady reports whether an endpoint is ready. Unknown means ready (discovery.k8s.io/v1).
func isReady(endpoint discoveryv1.Endpoint) bool {
	return endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
}

// CanServe reports whether Service kedify-proxy has the port, and a ready proxy with this port accepts connections and
// belongs to a Deployment that is not terminating. EndpointSlices show a termination only after it began, when load
// balancers have no other backend.
func (p *Proxies) CanServe(number int32) bool {
	name, hasPort := p.portName(number)
	return hasPort && !p.isTerminating() && slices.ContainsFunc(p.Endpoints, func(slice discoveryv1.EndpointSlice) bool {
		return hasSlicePort(slice, name) && slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool {
			return isReady(endpoint) && !p.isGone(endpoint)
		})
	})
}

// hasSlicePort reports whether the endpoints of a slice have the port of that name. A port that was added to the
// Service is missing until the slice is updated. A slice that lists no ports, or a port without a name, has every port.
func hasSlicePort(slice discoveryv1.EndpointSlice, name string) bool {
	return len(slice.Ports) == 0 || slices.ContainsFunc(slice.Ports, func(port discoveryv1.EndpointPort) bool {
		return port.Name == nil || *port.Name == name
	})
}

// isGone reports whether the process of an endpoint is known to have exited.
func (p *Proxies) isGone(endpoint discoveryv1.Endpoint) bool {
	return slices.ContainsFunc(p.Gone, func(proxy netip.AddrPort) bool {
		return slices.ContainsFunc(endpoint.Addresses, func(text string) bool {
			address, err := netip.ParseAddr(text)
			return err == nil && address == proxy.Addr()
		})
	})
}

// isTerminating reports whether all Pods of the proxies are known to terminate. The agent always installs a
// Deployment. When it is deleted, its Pods follow.
func (p *Proxies) isTerminating() bool {
	if p.Deployment == nil {
		return isManaged(p.Service)
	}
	return IsTerminating(p.Deployment)
}

// IsTerminating reports whether all Pods of Deployment kedify-proxy terminate or are about to.
func IsTerminating(deployment *appsv1.Deployment) bool {
	if deployment.DeletionTimestamp != nil || deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0 {
		return deployment.Status.Replicas > 0 // without replicas, the Service's Pods belong to another workload
	}
	// A new Deployment replaces a deleted one, and the Pods belong to the deleted one.
	return deployment.Status.ObservedGeneration > 0 && deployment.Status.ReadyReplicas == 0
}

// Labels returns labels of the proxies' Pods: those that all of them have, which Service kedify-proxy selects them by or
// the Deployment has rolled out, and those of the Deployment that it may still be rolling out.
func (p *Proxies) Labels() (all, next map[string]string) {
	all, next = map[string]string{}, map[string]string{}
	if p.Service != nil {
		maps.Copy(all, p.Service.Spec.Selector)
	}
	if p.Deployment == nil {
		return all, next
	}
	maps.Copy(next, p.Deployment.Spec.Template.Labels)
	if status := p.Deployment.Status; status.ObservedGeneration == p.Deployment.Generation &&
		status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == status.Replicas && status.Replicas > 0 {
		maps.Copy(all, next)
	}
	return all, next
}
