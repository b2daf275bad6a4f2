package resolve

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// hashLabel is the label that Argo Rollouts sets to distinguish the Pods of ReplicaSets. It adds the label to the
// selectors of a Rollout's Services, and to no other Service.
const hashLabel = "rollouts-pod-template-hash"

// Service contains the fields of a Kubernetes Service that are read. All other fields are dropped, because there are
// several Services per HTTPScaledObject.
type Service struct {
	// Key is the name of the Service.
	Key model.Key
	// HasEndpoints is false for type ExternalName.
	HasEndpoints bool
	// HasClientIPAffinity is true for spec.sessionAffinity: ClientIP.
	HasClientIPAffinity bool
	// Family is the address type of the first IP family, "" if none is set. A dual-stack Service has every Pod twice,
	// once per family. The first family is also that of the Service's own address.
	Family discoveryv1.AddressType
	// Ports are the ports of the Service.
	Ports []Port
	// PodTemplateHash is the hash by which a Service of a Rollout selects its Pods, "" for any other Service.
	PodTemplateHash string
}

// Port is a port of a Service.
type Port struct {
	// Name is the name of the port in the Service and in its EndpointSlices.
	Name string
	// Transport is "" for TCP, otherwise the transport protocol, such as UDP.
	Transport corev1.Protocol
	// Number is 1 to 65535, or 0 for an invalid number.
	Number uint16
	// Protocol is the protocol of the endpoints, "" if the port selects none.
	Protocol model.Protocol
	// Target is the number or the name of the Pods' port, "0" if it equals the Service's port.
	Target string
}

// EndpointSlice contains the fields of a Kubernetes EndpointSlice that are read.
type EndpointSlice struct {
	// Key is the name of the slice, and Service the name of its Service.
	Key, Service model.Key
	// Family is the address type.
	Family discoveryv1.AddressType
	// Ports are the ports of all its endpoints.
	Ports []SlicePort
	// Endpoints are the endpoints of the slice.
	Endpoints []Endpoint
}

// SlicePort is a TCP port of the Pods of an EndpointSlice.
type SlicePort struct {
	// Name is the name of the Service's port.
	Name string
	// Number is that of the Pods.
	Number uint16
}

// Endpoint is an endpoint of an EndpointSlice.
type Endpoint struct {
	// Target is the name of the object behind the endpoint, "" if it is unknown. IsPod is true if it is a Pod.
	Target string
	// Address is the first address, since all addresses belong to the same Pod (discovery/v1, Endpoint). It is
	// invalid for a host name.
	Address netip.Addr
	IsPod   bool
	// IsReady, IsServing and IsTerminating are the conditions. HasServing is true if condition serving is set.
	IsReady, IsServing, IsTerminating, HasServing bool
}

// Equal reports whether two Services are equal.
func (s *Service) Equal(other *Service) bool {
	return s.Key == other.Key && s.HasEndpoints == other.HasEndpoints && s.Family == other.Family &&
		s.HasClientIPAffinity == other.HasClientIPAffinity &&
		s.PodTemplateHash == other.PodTemplateHash && slices.Equal(s.Ports, other.Ports)
}

// Equal reports whether two EndpointSlices are equal.
func (s *EndpointSlice) Equal(other *EndpointSlice) bool {
	return s.Key == other.Key && s.Service == other.Service && s.Family == other.Family &&
		slices.Equal(s.Ports, other.Ports) && slices.Equal(s.Endpoints, other.Endpoints)
}

// NewService reduces a Service. The result refers only to its strings.
func NewService(from *corev1.Service) *Service {
	service := &Service{
		Key:          model.Key{Namespace: from.Namespace, Name: from.Name},
		HasEndpoints: from.Spec.Type != corev1.ServiceTypeExternalName,
		Ports:        make([]Port, 0, len(from.Spec.Ports)),

		HasClientIPAffinity: from.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
		PodTemplateHash:     from.Spec.Selector[hashLabel],
	}
	if len(from.Spec.IPFamilies) > 0 {
		service.Family = familyOf(discoveryv1.AddressType(from.Spec.IPFamilies[0]))
	}
	for _, port := range from.Spec.Ports {
		transport := port.Protocol
		if transport == corev1.ProtocolTCP {
			transport = ""
		}
		service.Ports = append(service.Ports, Port{
			Name: port.Name, Transport: transport, Number: portNumber(port.Port),
			Protocol: model.ProtocolOf(valueOr(port.AppProtocol, ""), port.Name), Target: port.TargetPort.String(),
		})
	}
	return service
}

// NewEndpointSlice reduces an EndpointSlice. The result refers only to its strings.
func NewEndpointSlice(from *discoveryv1.EndpointSlice) *EndpointSlice {
	slice := &EndpointSlice{
		Key:       model.Key{Namespace: from.Namespace, Name: from.Name},
		Service:   model.Key{Namespace: from.Namespace, Name: from.Labels[discoveryv1.LabelServiceName]},
		Family:    familyOf(from.AddressType),
		Endpoints: make([]Endpoint, 0, len(from.Endpoints)),
	}
	for _, port := range from.Ports {
		isTCP := port.Protocol == nil || *port.Protocol == corev1.ProtocolTCP
		if number := portNumber(valueOr(port.Port, 0)); isTCP && number > 0 {
			slice.Ports = append(slice.Ports, SlicePort{valueOr(port.Name, ""), number})
		}
	}
	for _, source := range from.Endpoints {
		endpoint := Endpoint{
			Address: addressOf(source), HasServing: source.Conditions.Serving != nil,
			IsReady: valueOr(source.Conditions.Ready, true), IsServing: valueOr(source.Conditions.Serving, false),
			IsTerminating: valueOr(source.Conditions.Terminating, false),
		}
		if target := source.TargetRef; target != nil {
			endpoint.Target, endpoint.IsPod = target.Name, target.Kind == "Pod"
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	return slice
}

// familyOf returns the constant of an address family, so that all objects share one string.
func familyOf(family discoveryv1.AddressType) discoveryv1.AddressType {
	for _, constant := range []discoveryv1.AddressType{
		discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN,
	} {
		if family == constant {
			return constant
		}
	}
	return family
}

// portNumber returns 0 for an invalid port number.
func portNumber(number int32) uint16 {
	if number < 1 || number > 65535 {
		return 0
	}
	return uint16(number)
}

// addressOf returns the address of an endpoint. It is invalid if there is none, or one that the API server should
// have rejected.
func addressOf(endpoint discoveryv1.Endpoint) netip.Addr {
	if len(endpoint.Addresses) == 0 {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(endpoint.Addresses[0])
	if err != nil || address.Zone() != "" {
		return netip.Addr{}
	}
	return address.Unmap()
}

// valueOr returns the value of a pointer, or absent for nil.
func valueOr[T any](pointer *T, absent T) T {
	if pointer == nil {
		return absent
	}
	return *pointer
}
