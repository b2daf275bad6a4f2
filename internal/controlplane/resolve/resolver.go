package resolve

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Change is what is new among the objects that routing depends on, by namespace and name. A nil value says that an object is gone. Objects that are handed
// over are kept and must not change any more.
type Change struct {
	// ScaledObjects are the HTTPScaledObjects that came, changed or went.
	ScaledObjects map[model.Key]*httpv1alpha1.HTTPScaledObject
	// Services are the Services that did.
	Services map[model.Key]*Service
	// EndpointSlices are the EndpointSlices that did, by the name of the slice.
	EndpointSlices map[model.Key]*EndpointSlice
	// Tunings are those that did.
	Tunings Tunings
}

// Outcome is what a Change leads to.
type Outcome struct {
	// Updates are what is new in the Config of each fleet. An object that moves from one fleet to
	// another one is in both.
	Updates map[model.Fleet]model.Update
	// Problems are the mistakes of each object that was looked at, sorted, and none for one in which nothing is wrong or that is gone. Those of other
	// objects are what they were.
	Problems map[model.Key][]model.Problem
	// Concerned are the objects of which anything may be new: those in Updates and Problems, and all that use a Service that changed, be it in its
	// EndpointSlices alone.
	Concerned map[model.Key]struct{}
	// Proxies are those of each fleet of which one came, changed or went, and none for a fleet that
	// has none any more.
	Proxies map[model.Fleet][]model.Proxy
}

// Resolver is Build for a World that changes: after any sequence of Updates, what they have told adds up to exactly what Build returns for the World as it
// is, on top of what Build returned before the last of them. What is put into it decides what comes out, as with Build; it only remembers.
//
// An Update costs what the changed objects, and those that share a host or a Service with them, cost. It is not safe for concurrent use. Make it with
// NewResolver.
type Resolver struct {
	options    Options
	namespaces map[string]*census
	tunings    Tunings

	objects  map[model.Key]*objectState
	services map[model.Key]*serviceState
	slices   map[model.Key]*EndpointSlice // by their own names
	sites    map[site]*claims

	// unsettled are objects with mistakes that now have something else in force than when they were resolved.
	unsettled map[model.Key]struct{}
	isFresh   bool
}

// NewResolver returns a Resolver that knows no objects. options are as World.Options, and inForce are the Routes that the proxies have, as in World.InForce.
func NewResolver(options Options, inForce []model.Route) *Resolver {
	r := &Resolver{
		options: options, namespaces: map[string]*census{}, tunings: Tunings{},
		objects: map[model.Key]*objectState{}, services: map[model.Key]*serviceState{}, slices: map[model.Key]*EndpointSlice{},
		sites: map[site]*claims{}, unsettled: map[model.Key]struct{}{}, isFresh: true,
	}
	for _, route := range inForce {
		is := r.object(route.Owner)
		is.inForce = append(is.inForce, route)
	}
	return r
}

// object returns what is known of an object, and begins it if need be.
func (r *Resolver) object(key model.Key) *objectState {
	if r.objects[key] == nil {
		r.objects[key] = new(objectState)
	}
	return r.objects[key]
}

// service returns what is known of a Service, and begins it if need be.
func (r *Resolver) service(key model.Key) *serviceState {
	if r.services[key] == nil {
		r.services[key] = new(serviceState)
	}
	return r.services[key]
}

// Renew takes note of an object that differs from the one before in nothing that routing depends on, so
// that the one before need not be kept.
func (r *Resolver) Renew(object *httpv1alpha1.HTTPScaledObject) {
	if is := r.objects[ownerOf(object).key]; is != nil && is.object != nil {
		is.object = object
	}
}

// Service returns a Service and its EndpointSlices as the Resolver knows them, nil for none. Nobody may change them.
func (r *Resolver) Service(service model.Key) (*Service, []*EndpointSlice) {
	if is := r.services[service]; is != nil {
		return is.service, is.slices
	}
	return nil, nil
}

// InForce returns what an object has in force, the zero value for nothing. Nobody may change it.
func (r *Resolver) InForce(object model.Key) model.Config {
	if is := r.objects[object]; is != nil {
		return r.config(is.inForce)
	}
	return model.Config{}
}

// Update takes note of change and returns what it leads to. The first Update has to bring all objects, and tells everything.
func (r *Resolver) Update(change Change) Outcome {
	u := update{
		Resolver: r, dirty: r.unsettled, stale: map[model.Key]struct{}{}, touched: map[site]struct{}{}, concerned: map[model.Key]struct{}{},
		members: map[member]struct{}{}, sites: map[site]struct{}{},
	}
	r.unsettled = map[model.Key]struct{}{}
	u.takeServices(change.Services)
	u.takeSlices(change.EndpointSlices)
	u.takeScaledObjects(change.ScaledObjects)
	u.takeTunings(change.Tunings)
	for key := range u.dirty {
		u.ask(key)
	}
	for at := range u.touched {
		u.settle(at)
	}
	problems := make(map[model.Key][]model.Problem, len(u.concerned))
	for key := range u.concerned {
		problems[key] = u.grant(key)
	}
	u.refresh()
	r.isFresh = false
	outcome := Outcome{Updates: u.told(), Problems: problems, Concerned: u.concerned, Proxies: u.proxies()}
	u.forget()
	return outcome
}
