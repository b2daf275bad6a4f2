package ingest

import (
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// translateAll translates config. If that fails, it translates each object separately to find the objects that fail.
// These keep their Routes of previous, and all other objects are served as desired. The objects in quarantined are known
// to fail. It returns the resources, the Config from which they were translated, and the errors by object. err is set
// if no single object fails or the rest still cannot be translated.
//
// Every Config of package resolve can be translated. This function only prevents that a bug affects all objects.
func translateAll(
	envoy func(model.Config) (translate.Resources, error), config, previous model.Config, quarantined map[model.Key]error,
) (resources translate.Resources, published model.Config, failures map[model.Key]error, err error) {
	failures = maps.Clone(quarantined)
	if published = config; len(failures) > 0 {
		published = withLastGood(config, previous, failures)
	}
	if resources, err = envoy(published); err == nil {
		return resources, published, failures, nil
	}
	for key, routes := range routesByOwner(config.Routes) {
		if failures[key] != nil {
			continue
		}
		if _, objectErr := envoy(model.Config{Routes: routes, Services: config.Services}); objectErr != nil {
			if failures == nil {
				failures = map[model.Key]error{}
			}
			failures[key] = objectErr
		}
	}
	if len(failures) == 0 {
		return nil, previous, nil, err
	}
	for _, fallback := range []func(config, previous model.Config, failures map[model.Key]error) model.Config{
		withLastGood, withoutEndpoints, without,
	} {
		published = fallback(config, previous, failures)
		if resources, err = envoy(published); err == nil {
			break
		}
	}
	return resources, published, failures, err
}

// withoutEndpoints is withLastGood without the endpoints of the failed objects, in case that these are the reason.
func withoutEndpoints(config, previous model.Config, failures map[model.Key]error) model.Config {
	published := withLastGood(config, previous, failures)
	shared := map[model.ServicePort]bool{}
	for _, route := range published.Routes {
		for _, port := range route.Destinations() {
			shared[port] = shared[port] || failures[route.Owner] == nil
		}
	}
	for port, isShared := range shared {
		if !isShared {
			published.Services[port] = model.Endpoints{}
		}
	}
	return published
}

// without returns config without the failed objects.
func without(config, _ model.Config, failures map[model.Key]error) model.Config {
	return withLastGood(config, model.Config{}, failures)
}

// withLastGood returns config with the Routes of the failed objects replaced by their Routes in previous, except
// those with a Match that another object has claimed since. Config.Services must have an entry for each destination.
// The endpoints of a Service that config does not contain come from previous.
func withLastGood(config, previous model.Config, failures map[model.Key]error) model.Config {
	isFailed := func(route model.Route) bool { return failures[route.Owner] != nil }
	routes := slices.DeleteFunc(slices.Clone(config.Routes), isFailed)
	validCount := len(routes)
	for _, route := range previous.Routes {
		isClaimed := slices.ContainsFunc(routes[:validCount],
			func(other model.Route) bool { return other.Match.Compare(route.Match) == 0 })
		if isFailed(route) && !isClaimed {
			routes = append(routes, route)
		}
	}
	slices.SortFunc(routes, model.CompareRoutes)
	services := map[model.ServicePort]model.Endpoints{}
	for _, route := range routes {
		for _, port := range route.Destinations() {
			endpoints, ok := config.Services[port]
			if !ok {
				endpoints = previous.Services[port]
			}
			services[port] = endpoints
		}
	}
	return model.Config{Routes: routes, Services: services, Certificates: config.Certificates}
}

// routesByOwner groups routes by their object and keeps their order.
func routesByOwner(routes []model.Route) map[model.Key][]model.Route {
	owned := map[model.Key][]model.Route{}
	for _, route := range routes {
		owned[route.Owner] = append(owned[route.Owner], route)
	}
	return owned
}

// configByObject divides a Config by the objects of its Routes.
func configByObject(config model.Config) map[model.Key]model.Config {
	parts := map[model.Key]model.Config{}
	for owner, routes := range routesByOwner(config.Routes) {
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
