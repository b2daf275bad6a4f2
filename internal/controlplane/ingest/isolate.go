package ingest

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// translateAll translates config. When that fails, the objects to blame are found by translating each alone; they keep what they have in inForce, so that
// the others are served as they want to be. It returns the resources, the configuration that they come from, and what was wrong by object. err is left when
// nobody is to blame or the rest cannot be translated either.
//
// The model that package resolve makes can always be translated. This is what keeps a mistake in that from stopping everyone.
func translateAll(
	envoy func(model.Config) (translate.Resources, error), config, inForce model.Config,
) (resources translate.Resources, published model.Config, failures map[model.Key]error, err error) {
	if resources, err = envoy(config); err == nil {
		return resources, config, nil, nil
	}
	failures = map[model.Key]error{}
	for key, routes := range byOwner(config.Routes) {
		if _, alone := envoy(model.Config{Routes: routes, Services: config.Services}); alone != nil {
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
func withLastGood(config, inForce model.Config, failures map[model.Key]error) model.Config {
	isFailed := func(route model.Route) bool { return failures[route.Owner] != nil }
	routes := slices.DeleteFunc(slices.Clone(config.Routes), isFailed)
	others := len(routes)
	for _, route := range inForce.Routes {
		taken := slices.ContainsFunc(routes[:others], func(other model.Route) bool { return other.Match.Compare(route.Match) == 0 })
		if isFailed(route) && !taken {
			routes = append(routes, route)
		}
	}
	slices.SortFunc(routes, model.CompareRoutes)
	services := map[model.ServicePort]model.Endpoints{}
	for _, route := range routes {
		for _, port := range route.Destinations() {
			endpoints, known := config.Services[port]
			if !known {
				endpoints = inForce.Services[port]
			}
			services[port] = endpoints
		}
	}
	return model.Config{Routes: routes, Services: services, Certificates: config.Certificates}
}

// byOwner returns routes by the object that they come from, in their order.
func byOwner(routes []model.Route) map[model.Key][]model.Route {
	owned := map[model.Key][]model.Route{}
	for _, route := range routes {
		owned[route.Owner] = append(owned[route.Owner], route)
	}
	return owned
}

// byObject divides a Config by the objects that its Routes come from.
func byObject(config model.Config) map[model.Key]model.Config {
	parts := map[model.Key]model.Config{}
	for owner, routes := range byOwner(config.Routes) {
		part := model.Config{Routes: routes, Services: map[model.ServicePort]model.Endpoints{}}
		for _, route := range routes {
			for _, port := range route.Destinations() {
				part.Services[port] = config.Services[port]
			}
		}
		parts[owner] = part
	}
	return parts
}
