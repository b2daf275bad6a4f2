package resolve

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// told is what is new in the Config of each fleet.
func (u *update) told() map[model.Fleet]model.Update {
	updates := map[model.Fleet]model.Update{}
	of := func(fleet model.Fleet) model.Update {
		if _, known := updates[fleet]; !known {
			updates[fleet] = model.Update{Objects: map[model.Key]model.Config{}, Hosts: map[model.Host]model.Config{}}
		}
		return updates[fleet]
	}
	for each := range u.members {
		routes := u.objects[each.object].inForce
		if len(routes) > 0 && routes[0].Fleet != each.fleet {
			routes = nil // It has moved.
		}
		of(each.fleet).Objects[each.object] = u.config(routes)
	}
	for at := range u.sites {
		var granted []model.Route
		if claims := u.Resolver.sites[at]; claims != nil {
			granted = claims.granted
		}
		update := of(at.fleet)
		if len(granted) > 0 {
			if own := update.Objects[granted[0].Owner]; isSame(own.Routes, granted) {
				update.Hosts[at.host] = own // The usual case: an object has its hosts to itself.
				continue
			}
		}
		update.Hosts[at.host] = u.config(granted)
	}
	return updates
}

// isSame says whether two lists of Routes are one in memory.
func isSame(one, other []model.Route) bool {
	return len(one) == len(other) && len(one) > 0 && &one[0] == &other[0]
}

// proxies are those of the fleets of which one may be new.
func (u *update) proxies() map[model.Fleet][]model.Proxy {
	fleets := map[model.Fleet][]model.Proxy{}
	for service := range u.stale {
		if service.Name == ProxyService {
			fleets[model.Fleet(service.Namespace)] = proxiesOf(u.services[service].slices)
		}
	}
	return fleets
}

// config is the part of the Config that has these Routes.
func (r *Resolver) config(routes []model.Route) model.Config {
	if len(routes) == 0 {
		return model.Config{}
	}
	part := model.Config{Routes: routes, Services: make(map[model.ServicePort]model.Endpoints, 2)}
	for _, port := range portsOf(routes) {
		part.Services[port] = r.services[port.Service].port(port.Port).found
	}
	return part
}

// portsOf lists where routes lead, each once.
func portsOf(routes []model.Route) []model.ServicePort {
	var ports []model.ServicePort
	for i, route := range routes {
		if i > 0 && route.SameDestinations(routes[i-1]) {
			continue // The usual case: Routes of an object differ in nothing but their Match.
		}
		for _, port := range route.Destinations() {
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}
