package model

import (
	"slices"
	"time"
)

// Failover is the Service that answers a request of a Route if no endpoint of its backend becomes ready in time.
type Failover struct {
	// Service, Port and Protocol are as in Backend.
	Service  Key
	Port     uint32
	Protocol Protocol
	// Timeout is the maximum time that a request waits for the backend; 0 means that of a Route without a Failover.
	Timeout time.Duration
}

// ServicePort returns the key of its endpoints in Config.Services.
func (f Failover) ServicePort() ServicePort { return ServicePort{Service: f.Service, Port: f.Port} }

// Destinations returns the ports that requests of the Route may be sent to. It may contain duplicates.
func (r Route) Destinations() []ServicePort {
	ports := make([]ServicePort, 0, len(r.Backends)+1)
	for _, backend := range r.Backends {
		ports = append(ports, backend.ServicePort())
	}
	if r.Failover != nil {
		ports = append(ports, r.Failover.ServicePort())
	}
	return ports
}

// SameDestinations reports whether two Routes have equal backends and an equal Failover.
func (r Route) SameDestinations(other Route) bool {
	return slices.Equal(r.Backends, other.Backends) && equalValues(r.Failover, other.Failover)
}

// FailsOver reports whether requests of the Route can wait for an endpoint and then be sent to its Failover.
func FailsOver(route Route, services map[ServicePort]Endpoints) bool {
	return route.Failover != nil && slices.Contains(WaitsForEndpoint(route, services), true)
}

// equalValues reports whether both point to equal values, or both are nil.
func equalValues[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
