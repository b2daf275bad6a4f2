package resolve

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// updates returns the changes of each fleet's Config.
func (u *update) updates() map[model.Fleet]model.Update {
	updates := map[model.Fleet]model.Update{}
	updateOf := func(fleet model.Fleet) model.Update {
		if _, ok := updates[fleet]; !ok {
			updates[fleet] = model.Update{Objects: map[model.Key]model.Config{}, Hosts: map[model.Host]model.Config{}}
		}
		return updates[fleet]
	}
	for changed := range u.changedObjects {
		routes := u.objects[changed.object].published
		if len(routes) > 0 && routes[0].Fleet != changed.fleet {
			routes = nil // The object has moved to another fleet.
		}
		updateOf(changed.fleet).Objects[changed.object] = u.config(routes)
	}
	for at := range u.changedHosts {
		var winners []model.Route
		if claims := u.hosts[at]; claims != nil {
			winners = claims.winners
		}
		update := updateOf(at.fleet)
		if len(winners) > 0 {
			if object := update.Objects[winners[0].Owner]; isSameSlice(object.Routes, winners) {
				update.Hosts[at.host] = object // This is the common case: the host belongs to one object.
				continue
			}
		}
		update.Hosts[at.host] = u.config(winners)
	}
	return updates
}

// isSameSlice reports whether two lists of Routes share their memory.
func isSameSlice(one, other []model.Route) bool {
	return len(one) == len(other) && len(one) > 0 && &one[0] == &other[0]
}

// proxies returns the proxies of the fleets with a possible change.
func (u *update) proxies() map[model.Fleet][]model.Proxy {
	fleets := map[model.Fleet][]model.Proxy{}
	for service := range u.stale {
		if service.Name == ProxyService {
			state := u.services[service]
			fleets[model.Fleet(service.Namespace)] = proxiesOf(state.slices, u.options.needTokens(state.service))
		}
	}
	return fleets
}

// config returns the part of the Config with these Routes.
func (r *Resolver) config(routes []model.Route) model.Config {
	if len(routes) == 0 {
		return model.Config{}
	}
	config := model.Config{Routes: routes, Services: make(map[model.ServicePort]model.Endpoints, 2)}
	for _, port := range portsOf(routes) {
		config.Services[port] = r.services[port.Service].port(port.Port).endpoints
	}
	return config
}

// portsOf returns the destinations of routes without duplicates.
func portsOf(routes []model.Route) []model.ServicePort {
	var ports []model.ServicePort
	for i, route := range routes {
		if i > 0 && route.SameDestinations(routes[i-1]) {
			continue // This is the common case: Routes of an object differ only in their Match.
		}
		for _, port := range route.Destinations() {
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}
