package resolve

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Change contains the changed objects that routing depends on, by namespace and name. A nil value stands for a
// deleted object. The objects are retained and may not be modified afterwards.
type Change struct {
	// ScaledObjects are the added, changed and deleted HTTPScaledObjects.
	ScaledObjects map[model.Key]*httpv1alpha1.HTTPScaledObject
	// Services are the added, changed and deleted Services.
	Services map[model.Key]*Service
	// EndpointSlices are the added, changed and deleted EndpointSlices, by the name of the slice.
	EndpointSlices map[model.Key]*EndpointSlice
	// EnvoySettings are the changed settings of Envoy.
	EnvoySettings SettingsByNamespace
	// ConfigMaps are the changed ConfigMaps with bodies of static responses. A nil value stands for one that is no longer
	// named, or was not read yet.
	ConfigMaps ConfigMaps
	// Frozen are the objects that become frozen, or that no longer are (false). A frozen object keeps its published Routes
	// and has no Problems of its own, whatever its versions request. The endpoints of its Services are the current ones.
	Frozen map[model.Key]bool
}

// Outcome is the result of a Change.
type Outcome struct {
	// Updates are the changes of each fleet's Config. An object that moves to another fleet is in the updates of both
	// fleets.
	Updates map[model.Fleet]model.Update
	// Problems are the sorted validation errors of each object that was resolved, none for a valid or a deleted
	// object. Other objects keep their previous Problems.
	Problems map[model.Key][]model.Problem
	// Affected are the objects with any possible change: those in Updates and Problems, and all users of a changed
	// Service, even if only its EndpointSlices changed.
	Affected map[model.Key]struct{}
	// Proxies are the current proxies of each fleet with an added, changed or removed proxy. The list is nil for a fleet
	// whose Service ProxyService has no EndpointSlices, and empty if these have no endpoints.
	Proxies map[model.Fleet][]model.Proxy
}

// Resolver implements Build for changing Inputs. After any sequence of Updates the sum of the Outcomes equals the
// result of Build for the current Inputs, as long as no object is frozen. The published Config of these Inputs is the result before the last Update.
// Like Build it is deterministic.
//
// The cost of an Update depends on the changed objects and on those that share a host or a Service with them. In the
// shared fleet, objects also share the hosts below their wildcards: if a wildcard is claimed or released, or its owner
// delegates it to other namespaces, these hosts are resolved again. A Resolver is not safe for concurrent use. Make it
// with NewResolver.
type Resolver struct {
	options    Options
	namespaces namespaceLimits
	settings   SettingsByNamespace
	configMaps ConfigMaps

	objects  map[model.Key]*objectState
	services map[model.Key]*serviceState
	slices   map[model.Key]*EndpointSlice // by their own names
	hosts    map[fleetHost]*hostClaims
	// sharedHosts are the hosts of the shared fleet, the only one with objects of several namespaces. contested are its
	// hosts with rejected claims, by the owner that rejects them.
	sharedHosts hostTree
	contested   map[model.Key]map[fleetHost]struct{}

	// outdated are invalid objects with other published Routes than when they were resolved. The next Update resolves
	// them again.
	outdated  map[model.Key]struct{}
	isInitial bool
}

// NewResolver returns a Resolver without objects. options are as in Inputs.Options, and published are the Routes that
// the proxies have, as in Inputs.Published.
func NewResolver(options Options, published []model.Route) *Resolver {
	r := &Resolver{
		options: options, namespaces: namespaceLimits{}, settings: SettingsByNamespace{},
		configMaps: ConfigMaps{},
		objects:    map[model.Key]*objectState{}, services: map[model.Key]*serviceState{},
		slices: map[model.Key]*EndpointSlice{},
		hosts:  map[fleetHost]*hostClaims{}, outdated: map[model.Key]struct{}{}, isInitial: true,
		sharedHosts: hostTree{}, contested: map[model.Key]map[fleetHost]struct{}{},
	}
	for _, route := range published {
		state := r.object(route.Owner)
		state.published = append(state.published, route)
	}
	return r
}

// object returns the state of an object and creates it if necessary.
func (r *Resolver) object(key model.Key) *objectState {
	if r.objects[key] == nil {
		r.objects[key] = new(objectState)
	}
	return r.objects[key]
}

// kindOf is a kindLookup.
func (r *Resolver) kindOf(key model.Key) string {
	if state := r.objects[key]; state != nil && state.object != nil {
		return kindOf(state.object)
	}
	return httpv1alpha1.Kind
}

// service returns the state of a Service and creates it if necessary.
func (r *Resolver) service(key model.Key) *serviceState {
	if r.services[key] == nil {
		r.services[key] = new(serviceState)
	}
	return r.services[key]
}

// ReplaceObject replaces an object by a version without any difference in routing, so that the previous version can
// be freed.
func (r *Resolver) ReplaceObject(object *httpv1alpha1.HTTPScaledObject) {
	if state := r.objects[ownerOf(object).key]; state != nil && state.object != nil {
		state.object = object
	}
}

// Service returns a Service and its EndpointSlices, nil if it does not exist. The results may not be modified.
func (r *Resolver) Service(service model.Key) (*Service, []*EndpointSlice) {
	if state := r.services[service]; state != nil {
		return state.service, state.slices
	}
	return nil, nil
}

// Published returns the published Config of an object, the zero value if there is none. The result may not be
// modified.
func (r *Resolver) Published(object model.Key) model.Config {
	if state := r.objects[object]; state != nil {
		return r.config(state.published)
	}
	return model.Config{}
}

// Update applies a change and returns its outcome. The first Update must contain all objects, and its Outcome is
// complete.
func (r *Resolver) Update(change Change) Outcome {
	u := update{
		Resolver: r, dirty: r.outdated, stale: map[model.Key]struct{}{}, claimedHosts: map[fleetHost]struct{}{},
		coveredHosts: map[fleetHost]struct{}{}, affected: map[model.Key]struct{}{},
		changedObjects: map[fleetObject]struct{}{}, changedHosts: map[fleetHost]struct{}{},
	}
	r.outdated = map[model.Key]struct{}{}
	u.applyServices(change.Services)
	u.applySlices(change.EndpointSlices)
	namespaces := u.applyConfigMaps(change.ConfigMaps)
	u.applyFrozen(change.Frozen)
	u.applyScaledObjects(change.ScaledObjects, namespaces)
	u.applySettings(change.EnvoySettings)
	for key := range u.dirty {
		u.recompute(key)
	}
	u.resolveHosts()
	problems := make(map[model.Key][]model.Problem, len(u.affected))
	for key := range u.affected {
		problems[key] = u.assignRoutes(key)
	}
	u.refreshEndpoints()
	r.isInitial = false
	outcome := Outcome{Updates: u.updates(), Problems: problems, Affected: u.affected, Proxies: u.proxies()}
	u.prune()
	return outcome
}
