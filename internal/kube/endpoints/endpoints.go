// Package endpoints lists the Pods behind a Service by its EndpointSlices.
package endpoints

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Pod is one Pod behind a Service, with its address on one port.
type Pod struct {
	// Name is the name of the Pod, or its IP address if the endpoint has no targetRef.
	Name string
	// Address is host:port.
	Address string
}

// Pods returns the Pods that are endpoints in endpointSlices, with their addresses on the port named portName, sorted
// by name. It includes Pods that are not ready: a replica that starts or terminates still has clients.
func Pods(endpointSlices []*discoveryv1.EndpointSlice, portName string) []Pod {
	var pods []Pod
	for _, slice := range endpointSlices {
		port := portOf(slice, portName)
		for _, endpoint := range slice.Endpoints {
			if port == "" || len(endpoint.Addresses) == 0 {
				continue
			}
			pod := Pod{Name: endpoint.Addresses[0], Address: net.JoinHostPort(endpoint.Addresses[0], port)}
			if endpoint.TargetRef != nil {
				pod.Name = endpoint.TargetRef.Name
			}
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	// A dual-stack Service lists each Pod once per address family.
	return slices.CompactFunc(pods, func(a, b Pod) bool { return a.Name == b.Name })
}

// portOf returns the number of the slice's port named name, or "" if the slice has no such port.
func portOf(slice *discoveryv1.EndpointSlice, name string) string {
	for _, port := range slice.Ports {
		isMatch := port.Name != nil && *port.Name == name && port.Port != nil
		if isMatch && slice.AddressType != discoveryv1.AddressTypeFQDN {
			return strconv.Itoa(int(*port.Port))
		}
	}
	return ""
}
