package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
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
	// Fleet is set for a Service ProxyService with an annotation about its fleet, and nil for any other Service.
	Fleet *FleetSettings
}

// FleetSettings are the settings of a fleet on its Service ProxyService.
type FleetSettings struct {
	// Authentication is annotation http.kedify.io/proxy-authentication.
	Authentication string
	// UID is that of the Service, for Events.
	UID types.UID
}

// Problem returns why the settings are invalid and how to correct them, "" if they are valid.
func (f *FleetSettings) Problem() string {
	if f == nil || f.Authentication == httpv1alpha1.ProxyAuthenticationPermissive ||
		f.Authentication == httpv1alpha1.ProxyAuthenticationStrict {
		return ""
	}
	return fmt.Sprintf("annotation %s: %.80q is not a mode, so the fleet is %s: set it to %q or %q, or remove it",
		httpv1alpha1.AnnotationProxyAuthentication, f.Authentication, httpv1alpha1.ProxyAuthenticationStrict,
		httpv1alpha1.ProxyAuthenticationPermissive, httpv1alpha1.ProxyAuthenticationStrict)
}

// equal reports whether two settings are equal.
func (f *FleetSettings) equal(other *FleetSettings) bool {
	return f == other || f != nil && other != nil && *f == *other
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
	// Topology is the topology of the endpoint, the zero value if it has none. Most endpoints have none, and the others
	// share the few that exist.
	Topology unique.Handle[Topology]
	IsPod    bool
	// IsReady, IsServing and IsTerminating are the conditions. HasServing is true if condition serving is set.
	IsReady, IsServing, IsTerminating, HasServing bool
}

// Topology is where an endpoint is, and the proxies that it is intended for.
type Topology struct {
	// Zone and Node are the zone and the node on which the endpoint runs. They are set for proxies only, because the
	// endpoints of applications are on any number of nodes.
	Zone, Node string
	// Hint is set for the endpoints of applications only.
	Hint model.Hint
}

// Equal reports whether two Services are equal.
func (s *Service) Equal(other *Service) bool {
	return s.Key == other.Key && s.HasEndpoints == other.HasEndpoints && s.Family == other.Family &&
		s.HasClientIPAffinity == other.HasClientIPAffinity &&
		s.PodTemplateHash == other.PodTemplateHash && s.Fleet.equal(other.Fleet) && slices.Equal(s.Ports, other.Ports)
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
	if text, isSet := from.Annotations[httpv1alpha1.AnnotationProxyAuthentication]; isSet && from.Name == ProxyService {
		service.Fleet = &FleetSettings{Authentication: text, UID: from.UID}
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
			Topology:      topologyOf(source, slice.Service.Name == ProxyService),
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

// topologyOf returns the topology of an endpoint.
func topologyOf(endpoint discoveryv1.Endpoint, isProxy bool) unique.Handle[Topology] {
	var topology Topology
	switch {
	case isProxy:
		topology.Zone, topology.Node = valueOr(endpoint.Zone, ""), valueOr(endpoint.NodeName, "")
	case endpoint.Hints != nil:
		var zones, nodes []string
		for _, zone := range endpoint.Hints.ForZones {
			zones = append(zones, zone.Name)
		}
		for _, node := range endpoint.Hints.ForNodes {
			nodes = append(nodes, node.Name)
		}
		topology.Hint = model.Hint{Zones: joinSorted(zones), Nodes: joinSorted(nodes)}
	}
	if topology == (Topology{}) {
		return unique.Handle[Topology]{}
	}
	return unique.Make(topology)
}

// joinSorted returns the distinct names in order, separated by commas.
func joinSorted(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// topology returns the topology of the endpoint.
func (e Endpoint) topology() Topology {
	if e.Topology == (unique.Handle[Topology]{}) {
		return Topology{}
	}
	return e.Topology.Value()
}

// valueOr returns the value of a pointer, or absent for nil.
func valueOr[T any](pointer *T, absent T) T {
	if pointer == nil {
		return absent
	}
	return *pointer
}
