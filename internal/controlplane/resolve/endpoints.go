package resolve

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// sliceIndex maps Services to their EndpointSlices.
type sliceIndex map[model.Key][]*EndpointSlice

// indexSlices returns the sliceIndex of a list.
func indexSlices(endpointSlices []*EndpointSlice) sliceIndex {
	index := make(sliceIndex)
	for _, slice := range endpointSlices {
		index[slice.Service] = append(index[slice.Service], slice)
	}
	return index
}

// endpointsOf returns the endpoints of every destination of the routes.
func endpointsOf(
	routes []model.Route, services serviceIndex, endpointSlices sliceIndex,
) map[model.ServicePort]model.Endpoints {
	endpoints := make(map[model.ServicePort]model.Endpoints)
	for _, route := range routes {
		for _, port := range route.Destinations() {
			if _, ok := endpoints[port]; !ok {
				endpoints[port] = endpointsOfPort(services[port.Service], endpointSlices[port.Service], port.Port)
			}
		}
	}
	return endpoints
}

// endpointsOfPort returns the endpoints of one port of a Service, which is nil if it does not exist. The ports of a
// Service and of its slices correspond by name; the number in the slice is that of the Pods.
func endpointsOfPort(service *Service, endpointSlices []*EndpointSlice, number uint32) model.Endpoints {
	if service == nil || !service.HasEndpoints {
		return model.Endpoints{IsMissing: true}
	}
	index := slices.IndexFunc(service.Ports, func(candidate Port) bool {
		return candidate.Number > 0 && uint32(candidate.Number) == number && candidate.Transport == ""
	})
	if index < 0 {
		return model.Endpoints{IsMissing: true}
	}
	var endpoints model.Endpoints
	var hints hintsByAddress
	for _, slice := range endpointSlices {
		if isOfPrimaryFamily(slice, service) {
			collect(&endpoints, &hints, slice, service.Ports[index].Name)
		}
	}
	endpoints = normalize(endpoints)
	endpoints.Hints = hints.of(endpoints.Ready)
	return endpoints
}

// isOfPrimaryFamily reports whether the slice has addresses of the Service's first IP family. Slices of host names
// have no addresses.
func isOfPrimaryFamily(slice *EndpointSlice, service *Service) bool {
	return slice.Family != discoveryv1.AddressTypeFQDN && (service.Family == "" || service.Family == slice.Family)
}

// collect adds the endpoints of one slice that have the named port, and the hints of the ready ones.
func collect(endpoints *model.Endpoints, hints *hintsByAddress, slice *EndpointSlice, portName string) {
	for _, port := range slice.Ports {
		if port.Name != portName {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			at := netip.AddrPortFrom(endpoint.Address, port.Number)
			switch {
			case !endpoint.Address.IsValid():
			case endpoint.IsReady:
				endpoints.Ready = append(endpoints.Ready, at)
				hints.add(at, endpoint.topology().Hint)
			case endpoint.IsServing && endpoint.IsTerminating:
				endpoints.Draining = append(endpoints.Draining, at)
			}
		}
	}
}

// normalize sorts endpoints and removes duplicates: an endpoint may be in two slices while it moves between them. It
// is ready if it is ready in one of them.
func normalize(endpoints model.Endpoints) model.Endpoints {
	slices.SortFunc(endpoints.Ready, netip.AddrPort.Compare)
	endpoints.Ready = slices.Compact(endpoints.Ready)
	endpoints.Draining = slices.DeleteFunc(endpoints.Draining, func(at netip.AddrPort) bool {
		_, ready := slices.BinarySearchFunc(endpoints.Ready, at, netip.AddrPort.Compare)
		return ready
	})
	slices.SortFunc(endpoints.Draining, netip.AddrPort.Compare)
	endpoints.Draining = slices.Compact(endpoints.Draining)
	if len(endpoints.Draining) == 0 {
		endpoints.Draining = nil // so that equal Endpoints have one form
	}
	return endpoints
}
