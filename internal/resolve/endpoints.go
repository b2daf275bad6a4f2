package resolve

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// sliceIndex finds EndpointSlices by their Service.
type sliceIndex map[ir.Key][]*discoveryv1.EndpointSlice

// indexSlices makes a sliceIndex.
func indexSlices(endpointSlices []*discoveryv1.EndpointSlice) sliceIndex {
	index := make(sliceIndex)
	for _, slice := range endpointSlices {
		service := serviceOf(slice)
		index[service] = append(index[service], slice)
	}
	return index
}

// serviceOf returns the Service that a slice is of.
func serviceOf(slice *discoveryv1.EndpointSlice) ir.Key {
	return ir.Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// endpointsOf returns what is there for every backend of routes.
func endpointsOf(routes []ir.Route, services serviceIndex, endpointSlices sliceIndex) map[ir.ServicePort]ir.Endpoints {
	found := make(map[ir.ServicePort]ir.Endpoints)
	for _, route := range routes {
		for _, backend := range route.Backends {
			if _, known := found[backend.ServicePort()]; !known {
				found[backend.ServicePort()] = endpointsOfPort(backend.ServicePort(), services, endpointSlices)
			}
		}
	}
	return found
}

// endpointsOfPort returns what is there for one port of a Service. A Service's port and its slices' port have the same name; the number in the slice is
// that of the pods.
func endpointsOfPort(port ir.ServicePort, services serviceIndex, endpointSlices sliceIndex) ir.Endpoints {
	service, found := services[port.Service]
	if !found || service.Spec.Type == corev1.ServiceTypeExternalName {
		return ir.Endpoints{IsMissing: true}
	}
	index := slices.IndexFunc(service.Spec.Ports, func(candidate corev1.ServicePort) bool {
		return candidate.Port > 0 && uint32(candidate.Port) == port.Port && (candidate.Protocol == "" || candidate.Protocol == corev1.ProtocolTCP)
	})
	if index < 0 {
		return ir.Endpoints{IsMissing: true}
	}
	var endpoints ir.Endpoints
	for _, slice := range endpointSlices[port.Service] {
		if isOfPrimaryFamily(slice, service) {
			collect(&endpoints, slice, service.Spec.Ports[index].Name)
		}
	}
	return normal(endpoints)
}

// isOfPrimaryFamily says whether the addresses of slice are those that the Service's first IP family has. A dual-stack Service has every pod twice, once
// per family; the first is the one that the Service's own address has too. Slices of host names have no addresses.
func isOfPrimaryFamily(slice *discoveryv1.EndpointSlice, service *corev1.Service) bool {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return false
	}
	families := service.Spec.IPFamilies
	return len(families) == 0 || string(families[0]) == string(slice.AddressType)
}

// collect adds the endpoints of one slice that have the named port.
func collect(endpoints *ir.Endpoints, slice *discoveryv1.EndpointSlice, portName string) {
	for _, port := range slice.Ports {
		tcp := port.Protocol == nil || *port.Protocol == corev1.ProtocolTCP
		if !tcp || valueOr(port.Name, "") != portName || port.Port == nil || *port.Port < 1 || *port.Port > 65535 {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			address, ok := addressOf(endpoint)
			if !ok {
				continue
			}
			at := netip.AddrPortFrom(address, uint16(*port.Port))
			switch conditions := endpoint.Conditions; {
			case valueOr(conditions.Ready, true):
				endpoints.Ready = append(endpoints.Ready, at)
			case valueOr(conditions.Serving, false) && valueOr(conditions.Terminating, false):
				endpoints.Draining = append(endpoints.Draining, at)
			}
		}
	}
}

// addressOf returns an endpoint's address. All addresses of an endpoint stand for the same pod, so consumers use the first (discovery/v1, Endpoint).
func addressOf(endpoint discoveryv1.Endpoint) (netip.Addr, bool) {
	if len(endpoint.Addresses) == 0 {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(endpoint.Addresses[0])
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, false // the API server refuses such a slice, so there is nobody to tell
	}
	return address.Unmap(), true
}

// normal sorts endpoints and drops repetitions: an endpoint may be in two slices while it moves between them. What is ready in one of them is ready.
func normal(endpoints ir.Endpoints) ir.Endpoints {
	slices.SortFunc(endpoints.Ready, netip.AddrPort.Compare)
	endpoints.Ready = slices.Compact(endpoints.Ready)
	endpoints.Draining = slices.DeleteFunc(endpoints.Draining, func(at netip.AddrPort) bool {
		_, ready := slices.BinarySearchFunc(endpoints.Ready, at, netip.AddrPort.Compare)
		return ready
	})
	slices.SortFunc(endpoints.Draining, netip.AddrPort.Compare)
	endpoints.Draining = slices.Compact(endpoints.Draining)
	if len(endpoints.Draining) == 0 {
		endpoints.Draining = nil // one form of nothing, so that equal Endpoints are equal
	}
	return endpoints
}

// valueOr returns what pointer points to, or the default of an absent field.
func valueOr[T any](pointer *T, absent T) T {
	if pointer == nil {
		return absent
	}
	return *pointer
}
