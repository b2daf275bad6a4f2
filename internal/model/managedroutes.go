package model

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// Canary returns the backend that header and mirror routes refer to. The Route must have several backends.
func (r Route) Canary() Backend { return r.Backends[1] }

// HasMirrorRoute reports whether the Route has a mirror route.
func (r Route) HasMirrorRoute() bool {
	return slices.ContainsFunc(r.Managed, managedroute.Route.IsMirror)
}

// EffectiveManagedRoutes returns the header and mirror routes for the proxies: none while the canary has no ready
// endpoint. Its requests are then split by EffectiveWeights: they go to the stable backend, unless that one's weight is
// 0.
func EffectiveManagedRoutes(route Route, services map[ServicePort]Endpoints) []managedroute.Route {
	if len(route.Managed) == 0 || len(services[route.Canary().ServicePort()].Ready) == 0 {
		return nil
	}
	return route.Managed
}
