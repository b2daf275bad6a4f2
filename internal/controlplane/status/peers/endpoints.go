package peers

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	// ServiceName is the Service that all replicas are behind: the one that proxies connect to.
	ServiceName = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink"
	// PortName is the name of the port in it on which they speak.
	PortName = "control-plane"
)

// Replica is another replica of the interceptor.
type Replica struct {
	// Name is the name of its Pod.
	Name string
	// Address is where it speaks, host:port.
	Address string
}

// Others returns the replicas that are endpoints in endpointSlices, but for the one named self, in the
// order of their names.
func Others(endpointSlices []*discoveryv1.EndpointSlice, self string) []Replica {
	return slices.DeleteFunc(At(endpointSlices, PortName), func(replica Replica) bool { return replica.Name == self })
}

// At returns the replicas that are endpoints in endpointSlices, with their addresses on the port of that
// name, in the order of their names. It does not matter whether they are ready: one that starts or ends
// has proxies too.
func At(endpointSlices []*discoveryv1.EndpointSlice, portName string) []Replica {
	var found []Replica
	for _, slice := range endpointSlices {
		port := portOf(slice, portName)
		for _, endpoint := range slice.Endpoints {
			if port == "" || len(endpoint.Addresses) == 0 {
				continue
			}
			replica := Replica{Name: endpoint.Addresses[0], Address: net.JoinHostPort(endpoint.Addresses[0], port)}
			if endpoint.TargetRef != nil {
				replica.Name = endpoint.TargetRef.Name
			}
			found = append(found, replica)
		}
	}
	slices.SortFunc(found, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	// A dual-stack Service has each replica once per family.
	return slices.CompactFunc(found, func(a, b Replica) bool { return a.Name == b.Name })
}

// portOf returns the number of a slice's port of that name, "" when there is none.
func portOf(slice *discoveryv1.EndpointSlice, name string) string {
	for _, port := range slice.Ports {
		isIt := port.Name != nil && *port.Name == name && port.Port != nil
		if isIt && slice.AddressType != discoveryv1.AddressTypeFQDN {
			return strconv.Itoa(int(*port.Port))
		}
	}
	return ""
}
