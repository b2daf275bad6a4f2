package model

import (
	"slices"
	"time"
)

// Failover is who answers a request in the place of a Route's backends when it has waited for their first endpoint for too long.
type Failover struct {
	// Service, Port and Protocol are as in Backend.
	Service  Key
	Port     uint32
	Protocol Protocol
	// Timeout is the longest time that a request waits.
	Timeout time.Duration
}

// ServicePort returns the key of its endpoints in Config.Services.
func (f Failover) ServicePort() ServicePort { return ServicePort{Service: f.Service, Port: f.Port} }

// Destinations are the ports that requests of the Route may be sent to, some maybe twice.
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

// SharesDestinations says that two Routes are answered by the same backends and the same Failover.
func (r Route) SharesDestinations(other Route) bool {
	return slices.Equal(r.Backends, other.Backends) && equalValues(r.Failover, other.Failover)
}

// FailsOver says whether a request of the Route may come to wait, and then be sent to its Failover.
func FailsOver(route Route, services map[ServicePort]Endpoints) bool {
	return route.Failover != nil && slices.Contains(Held(route, services), true)
}

// equalValues says whether both point to equal values, or neither to any.
func equalValues[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
