// Package resolve turns Kubernetes objects into the model of package model, and users' validation errors into
// Problems.
//
// The package is pure: its results depend only on its Inputs and not on the order of objects. The Inputs include the
// published Routes, which remain active if an object becomes invalid.
//
// Build resolves all Inputs and is the reference implementation. A Resolver gives the same results for changing
// Inputs at the cost of the change.
package resolve

import (
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// Inputs are all objects that routing depends on, in any order and without nil elements. They are neither modified
// nor retained.
type Inputs struct {
	// ScaledObjects are the HTTPScaledObjects to serve.
	ScaledObjects []*httpv1alpha1.HTTPScaledObject
	// Services include at least the Services of all namespaces of ScaledObjects.
	Services []*Service
	// EndpointSlices are the slices of Services, identified by the label kubernetes.io/service-name.
	EndpointSlices []*EndpointSlice
	// EnvoySettings are the settings of Envoy from ConfigMaps.
	EnvoySettings SettingsByNamespace
	// ConfigMaps are the bodies of static responses in ConfigMaps.
	ConfigMaps ConfigMaps
	// Options are the operator's options.
	Options Options
	// Published is the Config that the proxies have, the zero value if they have none. An invalid HTTPScaledObject
	// keeps its part of it.
	Published model.Config
}

// Endpoints returns the endpoints of every destination of the routes.
func (w Inputs) Endpoints(routes []model.Route) map[model.ServicePort]model.Endpoints {
	return endpointsOf(routes, indexServices(w.Services), indexSlices(w.EndpointSlices))
}

// Build resolves the inputs. The rules:
//
//   - A request matches an object if it matches one of its rules. An HTTPScaledObject has one rule, an InterceptorRoute
//     any number. If one of several rules is invalid, the published Routes stay active in addition.
//   - Valid hosts and path prefixes are served. If one is invalid, the published hosts, or prefixes, stay active in
//     addition. If a header is invalid, the published hosts, prefixes and headers stay as they are.
//   - Backends are applied together with the header and mirror routes of annotation managed-routes. They are those of
//     annotation weighted-backends, or without it only the object's own Service. If they are invalid, the published
//     backends and routes stay active, except a split that the annotation no longer requests. An object without
//     published ones sends all requests to its own Service.
//   - Invalid stickiness or session affinity leaves the published one active, if any, and the backends as they are. An
//     object without published Routes continues with the one in its status.
//   - Invalid static responses leave the published ones active, if any. So does a ConfigMap with a body that was not read
//     yet.
//   - An invalid failover Service leaves the published one active, if any. So does an invalid timeout in an annotation.
//   - An object with annotation routing: none has no route and owns no host.
//   - A spec that cannot be parsed is ignored completely: the published Routes stay active, and an object without
//     published Routes is not served.
//   - Published Routes of a deleted object of the same name do not count.
//   - A Service belongs to the object's own namespace. A missing Service still has a route, without endpoints, so
//     that requests get 503 instead of 404.
//   - An object is served by the fleet of its namespace, or by the shared fleet if it requests that.
//   - In the shared fleet a host belongs to the namespace of the oldest object that names the host or a wildcard that
//     covers it, even if that object is invalid and has no route. Objects of other namespaces have no route of the
//     host, except those of the namespaces that this object lists in annotation allowed-namespaces. A wildcard does
//     not affect older hosts that it covers. Below a delegated wildcard, a host belongs to the oldest of the permitted
//     objects in the same way.
//   - If several of the remaining objects of one fleet have the same host, path prefix and headers, the oldest is
//     served, then the first by namespace and name. The others keep their remaining routes.
//   - In a namespace over its limits the oldest objects are served, and the others are not served at all. Of objects
//     whose static responses exceed the limit of their namespace, the youngest have no static responses.
//
// Each validation error is a Problem of its object. Problems are sorted. Resolving the same objects again with the
// result as the published Config gives the same Config, with one exception: an invalid object that lost all its
// published Routes to older objects is then served for the valid parts of its current version.
func Build(inputs Inputs) (model.Config, []model.Problem) {
	services := indexServices(inputs.Services)
	published := routesByOwner(inputs.Published.Routes)
	claims := map[fleetHost][]claim{}
	var problems []model.Problem
	limits := inputs.Options.limitsOf(inputs.ScaledObjects, inputs.ConfigMaps)
	for _, object := range inputs.ScaledObjects {
		if issue, isOver := limits.overLimits(ownerOf(object).key); isOver {
			problems = append(problems, problemsOf(object, issue)...)
			continue
		}
		options := objectOptions{
			inputs.Options, inputs.EnvoySettings.forNamespace(object.Namespace), inputs.ConfigMaps,
			limits.isOverStatic(ownerOf(object).key),
		}
		current := resolveObject(object, options, services.lookup, published[ownerOf(object)])
		problems = append(problems, current.problems...)
		for at, ofObject := range current.claims(inputs.Options.SharedFleet) {
			claims[at] = append(claims[at], ofObject)
		}
	}
	routes, conflicts := resolveConflicts(claims, kindsOf(inputs.ScaledObjects))
	problems = append(problems, conflicts...)
	slices.SortFunc(problems, model.Problem.Compare)
	return model.Config{
		Routes:   routes,
		Services: endpointsOf(routes, services, indexSlices(inputs.EndpointSlices)),
	}, slices.Compact(problems)
}

// owner identifies an HTTPScaledObject: a deleted and recreated object has another UID.
type owner struct {
	key model.Key
	uid string
}

// ownerOf returns the identity of the object.
func ownerOf(object *httpv1alpha1.HTTPScaledObject) owner {
	return owner{key: model.Key{Namespace: object.Namespace, Name: object.Name}, uid: string(object.UID)}
}

// kindLookup returns the kind of the API object that an object stands for.
type kindLookup func(model.Key) string

// kindOf returns the kind of the API object that an object stands for.
func kindOf(object *httpv1alpha1.HTTPScaledObject) string {
	if object.Spec.Converted != nil {
		return httpv1beta1.Kind
	}
	return httpv1alpha1.Kind
}

// kindsOf returns the kindLookup of objects.
func kindsOf(objects []*httpv1alpha1.HTTPScaledObject) kindLookup {
	converted := map[model.Key]struct{}{}
	for _, object := range objects {
		if object.Spec.Converted != nil {
			converted[ownerOf(object).key] = struct{}{}
		}
	}
	return func(key model.Key) string {
		if _, isConverted := converted[key]; isConverted {
			return httpv1beta1.Kind
		}
		return httpv1alpha1.Kind
	}
}

// routesByOwner groups routes by owner and keeps their order.
func routesByOwner(routes []model.Route) map[owner][]model.Route {
	grouped := make(map[owner][]model.Route)
	for _, route := range routes {
		identity := owner{key: route.Owner, uid: route.UID}
		grouped[identity] = append(grouped[identity], route)
	}
	return grouped
}

// SettingsByNamespace are settings of Envoy by namespace of the objects that they apply to. Those of "" apply to all
// objects as far as their namespace has no others. nil means no settings.
type SettingsByNamespace map[string]*model.EnvoySettings

// forNamespace returns the settings for the objects of a namespace.
func (t SettingsByNamespace) forNamespace(namespace string) *model.EnvoySettings {
	return t[namespace].Over(t[""])
}

// objectOptions are the options for one object that its owner does not control.
type objectOptions struct {
	Options

	settings   *model.EnvoySettings
	configMaps ConfigMaps
	// isOverStatic is true if the static responses of the object exceed the limit of its namespace.
	isOverStatic bool
}

// resolvedObject is the result for one object, regardless of other objects.
type resolvedObject struct {
	routes   []model.Route // in the order of their Matches
	problems []model.Problem
	// isPending is true if a ConfigMap that the object names was not read yet: then the result depends on the published
	// Routes.
	isPending bool
	// claimant is the object as the owner of its hosts, and named are those of namedHosts.
	claimant claimant
	named    []model.Host
}

// resolveObject resolves one object. published are the object's published Routes.
func resolveObject(
	object *httpv1alpha1.HTTPScaledObject, options objectOptions, lookup serviceLookup, published []model.Route,
) resolvedObject {
	by := ownerOf(object)
	if httpv1alpha1.IsUnrouted(object) {
		return resolvedObject{claimant: claimant{
			object: by.key, created: object.CreationTimestamp.UTC(), isConverted: object.Spec.Converted != nil,
		}}
	}
	allowed, issues := delegationOf(object)
	resolved := resolvedObject{claimant: claimant{
		object: by.key, created: object.CreationTimestamp.UTC(), allowed: allowed, isConverted: object.Spec.Converted != nil,
	}}
	if object.Spec.Unreadable == "" {
		var ofSpec []issue
		static := parseStatic(object)
		resolved.isPending = options.configMaps.isPending(static.configMaps(object.Namespace))
		resolved.routes, ofSpec = routesOf(object, options, static, lookup, published)
		issues = append(ofSpec, issues...)
	} else {
		resolved.routes = published
		issues = []issue{{httpv1alpha1.ReasonInvalidSpec, "spec." + object.Spec.Unreadable + ": correct the value"}}
	}
	resolved.problems = problemsOf(object, issues...)
	resolved.named = options.namedHosts(object, resolved)
	return resolved
}

// routesOf returns the Routes that one object requests, or keeps of its published ones, and the issues.
func routesOf(
	object *httpv1alpha1.HTTPScaledObject, options objectOptions, texts staticTexts, lookup serviceLookup,
	published []model.Route,
) ([]model.Route, []issue) {
	fleet, fleetIssues := options.fleetOf(object, published)
	matches, matchIssues := matchesOf(object.Spec, fleet, fleet == options.SharedFleet, published)
	backends, backendIssues := backendsOf(object, lookup)
	var managed []managedroute.Route
	if len(backendIssues) == 0 {
		managed, backendIssues = managedRoutesOf(object, len(backends), len(matches))
	}
	if len(backendIssues) > 0 {
		backends, managed = lastGood(object, published, backends, lookup, len(matches))
	}
	if fault.UnfinishedAbort && // Only in a mutant.
		!hasWeightedBackends(object) && len(published) > 0 && len(published[0].Backends) == 2 {
		backends = slices.Clone(published[0].Backends)
		backends[0].Weight, backends[1].Weight = 95, 5
	}
	failover, failoverIssues := failoverOf(object, lookup)
	if len(failoverIssues) > 0 && len(published) > 0 {
		failover = published[0].Failover
	}
	minReplicas := minReplicasOf(object.Spec.Replicas)
	if minReplicas > 0 {
		failover = nil // No request is queued.
	}
	stickiness, stickinessIssues := stickinessOf(object, backends, published)
	sessionAffinity, affinityIssues := sessionAffinityOf(object, backends, lookup, published)
	timeouts, timeoutIssues := timeoutsOf(object, published)
	static, staticIssues := staticOf(object, texts, options, len(matches), managed, published)
	by := ownerOf(object)
	routes := make([]model.Route, 0, len(matches))
	for _, match := range matches {
		routes = append(routes, model.Route{
			Owner:         by.key,
			UID:           by.uid,
			Fleet:         fleet,
			Created:       object.CreationTimestamp.UTC(),
			Match:         match,
			Backends:      backends,
			Managed:       managed,
			Stickiness:    stickiness,
			Affinity:      sessionAffinity,
			Static:        static.routes,
			Placeholder:   static.placeholder,
			Failover:      failover,
			Timeouts:      timeouts,
			EnvoySettings: options.settings,

			MinReplicas: minReplicas,
			HealthPath:  healthPathOf(object),
			Secret:      object.Annotations[httpv1alpha1.AnnotationTLSSecretName],
		})
	}
	return routes, slices.Concat(matchIssues, backendIssues, stickinessIssues, affinityIssues, timeoutIssues,
		staticIssues, failoverIssues, fleetIssues)
}

// problemsOf converts issues to Problems of an object.
func problemsOf(object *httpv1alpha1.HTTPScaledObject, issues ...issue) []model.Problem {
	var problems []model.Problem
	for _, current := range issues {
		problems = append(problems, model.Problem{On: ownerOf(object).key, Reason: current.reason, Message: current.message})
	}
	return problems
}

// issue is a validation error that is not yet assigned to an object.
type issue struct {
	reason  string // one of the reasons of condition Accepted
	message string
}

// healthPathOf returns the path of health checks that the proxy answers, "" for none. A value that is no path is
// ignored.
func healthPathOf(object *httpv1alpha1.HTTPScaledObject) string {
	path := httpv1alpha1.StaticHealthcheck(object)
	if _, err := model.ParsePathPrefix(path); err != nil || path == "" {
		return ""
	}
	return path
}

// minReplicasOf returns spec.replicas.min, 0 if it is missing, as in KEDA.
func minReplicasOf(replicas *httpv1alpha1.ReplicaRange) uint32 {
	if replicas == nil || replicas.Min == nil {
		return 0
	}
	return uint32(max(0, *replicas.Min))
}
