// Package resolve turns Kubernetes objects into the model of package ir, and users' mistakes into Problems.
//
// It is pure: a World comes in, a Config and its Problems go out, whatever the order of the objects. The routes in force, which a mistake must not undo,
// come in as a value too.
//
// Build resolves a whole World and is the reference. A Resolver does the same for a World that changes, at the cost of what changed.
package resolve

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// World is every object that routing depends on, in any order, without nil elements. Nothing in it is changed or kept.
type World struct {
	// ScaledObjects are the HTTPScaledObjects to serve.
	ScaledObjects []*httpv1alpha1.HTTPScaledObject
	// Services are the Services of at least the namespaces of ScaledObjects.
	Services []*corev1.Service
	// EndpointSlices are those of Services, recognised by the label kubernetes.io/service-name.
	EndpointSlices []*discoveryv1.EndpointSlice
	// InForce is the Config that the proxies have now, the zero value if they have none. An HTTPScaledObject with a mistake keeps what it has there.
	InForce ir.Config
}

// Build resolves world. The rules:
//
//   - Hosts, path prefixes and headers stand or fall together. When one is wrong, those in force stay; an object that has none in force is served for
//     the hosts and prefixes that are right, provided that its headers are.
//   - Backends stand or fall together too. They are those of the annotation weighted-backends, or without it the object's own Service alone. When
//     that cannot be carried out, the backends in force stay, but for a split that the annotation no longer asks for; an object that has none in force
//     sends everything to its own Service.
//   - Of a spec that cannot be read nothing is believed: what is in force stays, and an object that has nothing in force is not served.
//   - What was in force for an object of the same name that was deleted since doesn't count.
//   - A Service is one of the object's own namespace. One that is missing still has a route, which nobody answers: a host that is known must not look
//     unknown.
//   - Of several objects with the same host, path prefix and headers the oldest is served, then the first by namespace and name. The others keep the
//     rest of their routes.
//
// Each mistake is a Problem of its object. Problems are sorted. Resolving the same objects again with the outcome in force gives the same Config, but for
// an object with a mistake that has lost all it had in force to older ones: it is then served for what is right of its present form.
func Build(world World) (ir.Config, []ir.Problem) {
	services := indexServices(world.Services)
	inForce := routesByOwner(world.InForce.Routes)
	var (
		candidates []ir.Route
		problems   []ir.Problem
	)
	for _, object := range world.ScaledObjects {
		routes, mistakes := resolveObject(object, services.find, inForce[ownerOf(object)])
		candidates = append(candidates, routes...)
		problems = append(problems, mistakes...)
	}
	routes, conflicts := settle(candidates)
	problems = append(problems, conflicts...)
	slices.SortFunc(problems, ir.Problem.Compare)
	return ir.Config{
		Routes:   routes,
		Services: endpointsOf(routes, services, indexSlices(world.EndpointSlices)),
	}, slices.Compact(problems)
}

// owner is an HTTPScaledObject in the time of its existence: one that is deleted and created again is another.
type owner struct {
	key     ir.Key
	created int64 // Unix seconds, the precision of creationTimestamp
}

// ownerOf returns the identity under which object's Routes are in force.
func ownerOf(object *httpv1alpha1.HTTPScaledObject) owner {
	return owner{key: ir.Key{Namespace: object.Namespace, Name: object.Name}, created: object.CreationTimestamp.Unix()}
}

// routesByOwner groups routes, keeping their order.
func routesByOwner(routes []ir.Route) map[owner][]ir.Route {
	grouped := make(map[owner][]ir.Route)
	for _, route := range routes {
		by := owner{key: route.Owner, created: route.Created.Unix()}
		grouped[by] = append(grouped[by], route)
	}
	return grouped
}

// resolveObject returns the Routes that one object asks for, as if it were the only one, and its mistakes. inForce are its Routes that are in force.
func resolveObject(object *httpv1alpha1.HTTPScaledObject, find finder, inForce []ir.Route) ([]ir.Route, []ir.Problem) {
	if object.Spec.Unreadable != "" {
		return inForce, []ir.Problem{{
			On: ownerOf(object).key, Reason: httpv1alpha1.ReasonInvalidSpec, Message: "spec." + object.Spec.Unreadable + "; correct the value",
		}}
	}
	matches, wrongMatches := matchesOf(object.Spec)
	if len(wrongMatches) > 0 && len(inForce) > 0 {
		matches = matches[:0]
		for _, route := range inForce {
			matches = append(matches, route.Match)
		}
	}
	backends, wrongBackends := backendsOf(object, find)
	// Without the annotation nobody but the own Service is to get anything, so a split that is in force must not come back.
	if len(wrongBackends) > 0 && len(inForce) > 0 && (hasAnnotation(object) || len(inForce[0].Backends) == 1) {
		backends = inForce[0].Backends
	}
	by := ownerOf(object)
	routes := make([]ir.Route, 0, len(matches))
	for _, match := range matches {
		routes = append(routes, ir.Route{
			Owner:    by.key,
			Created:  object.CreationTimestamp.UTC(),
			Match:    match,
			Backends: backends,
			Timeouts: timeoutsOf(object.Spec.Timeouts),
		})
	}
	var problems []ir.Problem
	for _, mistake := range slices.Concat(wrongMatches, wrongBackends) {
		problems = append(problems, ir.Problem{On: by.key, Reason: mistake.reason, Message: mistake.message})
	}
	return routes, problems
}

// mistake is a Problem before it is known whose.
type mistake struct {
	reason  string // one of the reasons of condition Accepted
	message string
}

// timeoutsOf reads spec.timeouts. A missing, zero or negative duration leaves the proxy's default in force.
func timeoutsOf(timeouts *httpv1alpha1.Timeouts) ir.Timeouts {
	if timeouts == nil || timeouts.ResponseHeader == nil {
		return ir.Timeouts{}
	}
	return ir.Timeouts{ResponseHeader: max(0, timeouts.ResponseHeader.Duration)}
}
