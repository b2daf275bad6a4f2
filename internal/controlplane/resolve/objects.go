package resolve

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// hashLabel is the label by which Argo Rollouts tells the Pods of one ReplicaSet from those of another. It
// adds it to the selectors of the Services of a Rollout, and to nobody else's.
const hashLabel = "rollouts-pod-template-hash"

// Service is what is read of a Kubernetes Service. There are several for each HTTPScaledObject, so that
// nothing else is kept.
type Service struct {
	// Key names the Service.
	Key model.Key
	// HasEndpoints is false for one of type ExternalName.
	HasEndpoints bool
	// Family is the kind of the addresses of its first IP family, "" when it names none. A dual-stack
	// Service has every Pod twice, once per family; the first is that of the Service's own address too.
	Family discoveryv1.AddressType
	// Ports are its ports.
	Ports []Port
	// PodTemplateHash is the hash by which a Service of a Rollout selects its Pods, "" for another one.
	PodTemplateHash string
}

// Port is a port of a Service.
type Port struct {
	// Name is its name, and that of the same port in EndpointSlices.
	Name string
	// Transport is "" for TCP, else the name of the protocol below HTTP, such as UDP.
	Transport corev1.Protocol
	// Number is 1 to 65535, or 0 for one that means nothing.
	Number uint16
	// Protocol is what endpoints speak.
	Protocol model.Protocol
	// Target is the number or the name of the Pods' port, "0" when it is the Service's.
	Target string
}

// EndpointSlice is what is read of a Kubernetes EndpointSlice.
type EndpointSlice struct {
	// Key names the slice, and Service the Service that it is of.
	Key, Service model.Key
	// Family is the kind of its addresses.
	Family discoveryv1.AddressType
	// Ports are those that all its endpoints have.
	Ports []SlicePort
	// Endpoints are its endpoints.
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
	// Target is the name of what it stands for, "" when it is not known, and IsPod says that this is a Pod.
	Target string
	// Address is its first address, since all stand for the same Pod (discovery/v1, Endpoint). It is
	// invalid for a name.
	Address netip.Addr
	IsPod   bool
	// IsReady, IsServing and IsTerminating are its conditions, and HasServing says that IsServing was told.
	IsReady, IsServing, IsTerminating, HasServing bool
}

// Equal says whether two Services are the same in every part.
func (s *Service) Equal(other *Service) bool {
	return s.Key == other.Key && s.HasEndpoints == other.HasEndpoints && s.Family == other.Family &&
		s.PodTemplateHash == other.PodTemplateHash && slices.Equal(s.Ports, other.Ports)
}

// Equal says whether two EndpointSlices are the same in every part.
func (s *EndpointSlice) Equal(other *EndpointSlice) bool {
	return s.Key == other.Key && s.Service == other.Service && s.Family == other.Family &&
		slices.Equal(s.Ports, other.Ports) && slices.Equal(s.Endpoints, other.Endpoints)
}

// NewService reads a Service. Nothing of it is kept but texts.
func NewService(from *corev1.Service) *Service {
	service := &Service{
		Key:          model.Key{Namespace: from.Namespace, Name: from.Name},
		HasEndpoints: from.Spec.Type != corev1.ServiceTypeExternalName,
		Ports:        make([]Port, 0, len(from.Spec.Ports)),

		PodTemplateHash: from.Spec.Selector[hashLabel],
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
			Name: port.Name, Transport: transport, Number: portNumber(port.Port), Protocol: protocolOf(port.AppProtocol),
			Target: port.TargetPort.String(),
		})
	}
	return service
}

// NewEndpointSlice reads an EndpointSlice. Nothing of it is kept but texts.
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
	for _, each := range from.Endpoints {
		endpoint := Endpoint{
			Address: addressOf(each), HasServing: each.Conditions.Serving != nil,
			IsReady: valueOr(each.Conditions.Ready, true), IsServing: valueOr(each.Conditions.Serving, false),
			IsTerminating: valueOr(each.Conditions.Terminating, false),
		}
		if target := each.TargetRef; target != nil {
			endpoint.Target, endpoint.IsPod = target.Name, target.Kind == "Pod"
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	return slice
}

// familyOf returns the one text that all of a family share.
func familyOf(family discoveryv1.AddressType) discoveryv1.AddressType {
	for _, known := range []discoveryv1.AddressType{
		discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN,
	} {
		if family == known {
			return known
		}
	}
	return family
}

// portNumber is 0 for what is no number of a port.
func portNumber(number int32) uint16 {
	if number < 1 || number > 65535 {
		return 0
	}
	return uint16(number)
}

// addressOf returns an endpoint's address, an invalid one when it has none or the API server should have
// refused it.
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

// protocolOf reads a Service port's appProtocol: kubernetes.io/h2c is Kubernetes' own name for HTTP/2 in
// clear text (KEP-3726); h2c, http2 and grpc are in use without a prefix; https is IANA's name. Anything
// else, above all nothing, means HTTP/1.1.
func protocolOf(appProtocol *string) model.Protocol {
	switch strings.ToLower(valueOr(appProtocol, "")) {
	case "kubernetes.io/h2c", "h2c", "http2", "grpc":
		return model.HTTP2
	case "https":
		return model.HTTPS
	default:
		return model.HTTP1
	}
}

// valueOr returns what pointer points to, or the default of an absent field.
func valueOr[T any](pointer *T, absent T) T {
	if pointer == nil {
		return absent
	}
	return *pointer
}
