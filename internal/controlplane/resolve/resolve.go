// Package resolve turns Kubernetes objects into the model of package ir, and users' mistakes into Problems.
//
// It is pure: a World comes in, a Config and its Problems go out, whatever the order of the objects. The routes in force, which a mistake must not undo,
// come in as a value too.
//
// Build resolves a whole World and is the reference. A Resolver does the same for a World that changes, at the cost of what changed.
package resolve

import (
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// World is every object that routing depends on, in any order, without nil elements. Nothing in it is changed or kept.
type World struct {
	// ScaledObjects are the HTTPScaledObjects to serve.
	ScaledObjects []*httpv1alpha1.HTTPScaledObject
	// Services are the Services of at least the namespaces of ScaledObjects.
	Services []*Service
	// EndpointSlices are those of Services, recognised by the label kubernetes.io/service-name.
	EndpointSlices []*EndpointSlice
	// Tunings are changed settings of Envoy.
	Tunings Tunings
	// Options are the operator's choices.
	Options Options
	// InForce is the Config that the proxies have now, the zero value if they have none. An HTTPScaledObject with a mistake keeps what it has there.
	InForce model.Config
}

// Endpoints returns what is there for every backend of routes.
func (w World) Endpoints(routes []model.Route) map[model.ServicePort]model.Endpoints {
	return endpointsOf(routes, indexServices(w.Services), indexSlices(w.EndpointSlices))
}

// Build resolves world. The rules:
//
//   - Hosts, path prefixes and headers stand or fall together. When one is wrong, those in force stay; an object that has none in force is served for
//     the hosts and prefixes that are right, provided that its headers are.
//   - Backends stand or fall together too, and with them the header and mirror routes of the annotation managed-routes. They are those of the annotation
//     weighted-backends, or without it the object's own Service alone. When that cannot be carried out, the backends and routes in force stay, but for a
//     split that the annotation no longer asks for; an object that has none in force sends everything to its own Service.
//   - A failover Service that cannot be had leaves the one in force, or none.
//   - Of a spec that cannot be read nothing is believed: what is in force stays, and an object that has nothing in force is not served.
//   - What was in force for an object of the same name that was deleted since doesn't count.
//   - A Service is one of the object's own namespace. One that is missing still has a route, which nobody answers: a host that is known must not look
//     unknown.
//   - An object is served by the fleet of its namespace, or by the shared one if it asks for that.
//   - Of several objects of one fleet with the same host, path prefix and headers the oldest is served, then the first by namespace and name. The others
//     keep the rest of their routes.
//   - Of a namespace that is over the bounds the oldest objects are served, and the others not at all.
//
// Each mistake is a Problem of its object. Problems are sorted. Resolving the same objects again with the outcome in force gives the same Config, but for
// an object with a mistake that has lost all it had in force to older ones: it is then served for what is right of its present form.
func Build(world World) (model.Config, []model.Problem) {
	services := indexServices(world.Services)
	inForce := routesByOwner(world.InForce.Routes)
	var (
		candidates []model.Route
		problems   []model.Problem
	)
	excess := world.Options.allExcess(world.ScaledObjects)
	for _, object := range world.ScaledObjects {
		if wrong, isOver := excess[ownerOf(object).key]; isOver {
			problems = append(problems, problemsOf(object, wrong)...)
			continue
		}
		choices := choices{world.Options, world.Tunings.of(object.Namespace)}
		routes, mistakes := resolveObject(object, choices, services.find, inForce[ownerOf(object)])
		candidates = append(candidates, routes...)
		problems = append(problems, mistakes...)
	}
	routes, conflicts := settle(candidates)
	problems = append(problems, conflicts...)
	slices.SortFunc(problems, model.Problem.Compare)
	return model.Config{
		Routes:   routes,
		Services: endpointsOf(routes, services, indexSlices(world.EndpointSlices)),
	}, slices.Compact(problems)
}

// owner is an HTTPScaledObject in the time of its existence: one that is deleted and created again is another.
type owner struct {
	key model.Key
	uid string
}

// ownerOf returns the identity under which object's Routes are in force.
func ownerOf(object *httpv1alpha1.HTTPScaledObject) owner {
	return owner{key: model.Key{Namespace: object.Namespace, Name: object.Name}, uid: string(object.UID)}
}

// routesByOwner groups routes, keeping their order.
func routesByOwner(routes []model.Route) map[owner][]model.Route {
	grouped := make(map[owner][]model.Route)
	for _, route := range routes {
		by := owner{key: route.Owner, uid: route.UID}
		grouped[by] = append(grouped[by], route)
	}
	return grouped
}

// Tunings are changed settings of Envoy, by the namespace of the objects that they are for. Those of "" are for all objects, as far as
// their namespace has no others. nil is none.
type Tunings map[string]*model.Tuning

// of are the settings for the objects of a namespace.
func (t Tunings) of(namespace string) *model.Tuning { return t[namespace].Over(t[""]) }

// choices are what others than an object's owner have chosen for it.
type choices struct {
	Options

	tuning *model.Tuning
}

// resolveObject returns the Routes that one object asks for, as if it were the only one, and its mistakes. inForce are its Routes that are in force.
func resolveObject(
	object *httpv1alpha1.HTTPScaledObject, choices choices, find finder, inForce []model.Route,
) ([]model.Route, []model.Problem) {
	if object.Spec.Unreadable != "" {
		return inForce, problemsOf(object, mistake{httpv1alpha1.ReasonInvalidSpec, "spec." + object.Spec.Unreadable + "; correct the value"})
	}
	matches, wrongMatches := matchesOf(object.Spec)
	if len(wrongMatches) > 0 && len(inForce) > 0 {
		matches = matches[:0]
		for _, route := range inForce {
			matches = append(matches, route.Match)
		}
	}
	backends, wrongBackends := backendsOf(object, find)
	var managed []managedroute.Route
	if len(wrongBackends) == 0 {
		managed, wrongBackends = managedOf(object, len(backends), len(matches))
	}
	if len(wrongBackends) > 0 {
		backends, managed = lastGood(object, inForce, backends, find, len(matches))
	}
	if fault.UnfinishedAbort && // Only in a mutant.
		!hasAnnotation(object) && len(inForce) > 0 && len(inForce[0].Backends) == 2 {
		backends = slices.Clone(inForce[0].Backends)
		backends[0].Weight, backends[1].Weight = 95, 5
	}
	failover, wrongFailover := failoverOf(object, find)
	if len(wrongFailover) > 0 && len(inForce) > 0 {
		failover = inForce[0].Failover
	}
	minReplicas := minReplicasOf(object.Spec.Replicas)
	if minReplicas > 0 {
		failover = nil // Nobody waits.
	}
	fleet, wrongFleet := choices.fleetOf(object, inForce)
	by := ownerOf(object)
	routes := make([]model.Route, 0, len(matches))
	for _, match := range matches {
		routes = append(routes, model.Route{
			Owner:    by.key,
			UID:      by.uid,
			Fleet:    fleet,
			Created:  object.CreationTimestamp.UTC(),
			Match:    match,
			Backends: backends,
			Managed:  managed,
			Failover: failover,
			Timeouts: timeoutsOf(object.Spec.Timeouts),
			Tuning:   choices.tuning,

			MinReplicas: minReplicas,
			Secret:      object.Annotations[httpv1alpha1.AnnotationTLSSecretName],
		})
	}
	return routes, problemsOf(object, slices.Concat(wrongMatches, wrongBackends, wrongFailover, wrongFleet)...)
}

// problemsOf are the Problems that mistakes are to an object.
func problemsOf(object *httpv1alpha1.HTTPScaledObject, mistakes ...mistake) []model.Problem {
	var problems []model.Problem
	for _, mistake := range mistakes {
		problems = append(problems, model.Problem{On: ownerOf(object).key, Reason: mistake.reason, Message: mistake.message})
	}
	return problems
}

// mistake is a Problem before it is known whose.
type mistake struct {
	reason  string // one of the reasons of condition Accepted
	message string
}

// timeoutsOf reads spec.timeouts. A missing, zero or negative duration leaves the default in force.
func timeoutsOf(timeouts *httpv1alpha1.Timeouts) model.Timeouts {
	var read model.Timeouts
	if timeouts == nil {
		return read
	}
	if timeouts.ResponseHeader != nil {
		read.ResponseHeader = max(0, timeouts.ResponseHeader.Duration)
	}
	if timeouts.ConditionWait != nil {
		read.ColdStart = max(0, timeouts.ConditionWait.Duration)
	}
	return read
}

// minReplicasOf reads spec.replicas.min, which is 0 where it is missing, as in KEDA.
func minReplicasOf(replicas *httpv1alpha1.ReplicaRange) uint32 {
	if replicas == nil || replicas.Min == nil {
		return 0
	}
	return uint32(max(0, *replicas.Min))
}
