package ingest

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// translateAll translates config. When that fails, the objects to blame are found by translating each alone; they keep what they have in inForce, so that
// the others are served as they want to be. It returns the resources, the configuration that they come from, and what was wrong by object. err is left when
// nobody is to blame or the rest cannot be translated either.
//
// The model that package resolve makes can always be translated. This is what keeps a mistake in that from stopping everyone.
func translateAll(
	envoy func(ir.Config) (translate.Resources, error), config, inForce ir.Config,
) (resources translate.Resources, published ir.Config, failures map[ir.Key]error, err error) {
	if resources, err = envoy(config); err == nil {
		return resources, config, nil, nil
	}
	failures = map[ir.Key]error{}
	for key, routes := range byOwner(config.Routes) {
		if _, alone := envoy(ir.Config{Routes: routes, Services: config.Services}); alone != nil {
			failures[key] = alone
		}
	}
	if len(failures) == 0 {
		return nil, inForce, nil, err
	}
	config = withLastGood(config, inForce, failures)
	resources, err = envoy(config)
	return resources, config, failures, err
}

// withLastGood returns config with the routes of the failed objects replaced by those that are in force, as far as no other object has got their Match
// meanwhile. Config.Services must have an entry for each of the destinations; of a Service that config doesn't know, what was known last is there.
func withLastGood(config, inForce ir.Config, failures map[ir.Key]error) ir.Config {
	isFailed := func(route ir.Route) bool { return failures[route.Owner] != nil }
	routes := slices.DeleteFunc(slices.Clone(config.Routes), isFailed)
	others := len(routes)
	for _, route := range inForce.Routes {
		taken := slices.ContainsFunc(routes[:others], func(other ir.Route) bool { return other.Match.Compare(route.Match) == 0 })
		if isFailed(route) && !taken {
			routes = append(routes, route)
		}
	}
	slices.SortFunc(routes, ir.CompareRoutes)
	services := map[ir.ServicePort]ir.Endpoints{}
	for _, route := range routes {
		for _, port := range route.Destinations() {
			endpoints, known := config.Services[port]
			if !known {
				endpoints = inForce.Services[port]
			}
			services[port] = endpoints
		}
	}
	return ir.Config{Routes: routes, Services: services, Certificates: config.Certificates}
}

// byOwner returns routes by the object that they come from, in their order.
func byOwner(routes []ir.Route) map[ir.Key][]ir.Route {
	owned := map[ir.Key][]ir.Route{}
	for _, route := range routes {
		owned[route.Owner] = append(owned[route.Owner], route)
	}
	return owned
}

// byObject divides a Config by the objects that its Routes come from.
func byObject(config ir.Config) map[ir.Key]ir.Config {
	parts := map[ir.Key]ir.Config{}
	for owner, routes := range byOwner(config.Routes) {
		part := ir.Config{Routes: routes, Services: map[ir.ServicePort]ir.Endpoints{}}
		for _, route := range routes {
			for _, port := range route.Destinations() {
				part.Services[port] = config.Services[port]
			}
		}
		parts[owner] = part
	}
	return parts
}
