package model

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// Canary is the backend that header and mirror routes are about. The Route has several backends.
func (r Route) Canary() Backend { return r.Backends[1] }

// Mirrors says whether the Route has a mirror route.
func (r Route) Mirrors() bool { return slices.ContainsFunc(r.Managed, managedroute.Route.IsMirror) }

// EffectiveManaged returns the header and mirror routes that the proxies are to have, given what can answer now: none while the canary has no ready endpoint.
// Their requests then go by the weights, which are those of EffectiveWeights: to the stable backend, unless that one's weight is 0.
func EffectiveManaged(route Route, services map[ServicePort]Endpoints) []managedroute.Route {
	if len(route.Managed) == 0 || len(services[route.Canary().ServicePort()].Ready) == 0 {
		return nil
	}
	return route.Managed
}
