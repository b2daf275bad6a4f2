package resolve

import (
	"maps"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Change is what is new among the objects that routing depends on, by namespace and name. A nil value says that an object is gone. Objects that are handed
// over are kept and must not change any more.
type Change struct {
	// ScaledObjects are the HTTPScaledObjects that came, changed or went.
	ScaledObjects map[ir.Key]*httpv1alpha1.HTTPScaledObject
	// Services are the Services that did.
	Services map[ir.Key]*Service
	// EndpointSlices are the EndpointSlices that did, by the name of the slice.
	EndpointSlices map[ir.Key]*EndpointSlice
	// Tunings are those that did.
	Tunings Tunings
}

// Outcome is what a Change leads to.
type Outcome struct {
	// Updates are what is new in the Config of each fleet. An object that moves from one fleet to
	// another one is in both.
	Updates map[ir.Fleet]ir.Update
	// Problems are the mistakes of each object that was looked at, sorted, and none for one in which nothing is wrong or that is gone. Those of other
	// objects are what they were.
	Problems map[ir.Key][]ir.Problem
	// Concerned are the objects of which anything may be new: those in Updates and Problems, and all that use a Service that changed, be it in its
	// EndpointSlices alone.
	Concerned map[ir.Key]struct{}
	// Proxies are those of each fleet of which one came, changed or went, and none for a fleet that
	// has none any more.
	Proxies map[ir.Fleet][]ir.Proxy
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

	objects  map[ir.Key]*objectState
	services map[ir.Key]*serviceState
	slices   map[ir.Key]*EndpointSlice // by their own names
	sites    map[site]*claims

	// unsettled are objects with mistakes that now have something else in force than when they were resolved.
	unsettled map[ir.Key]struct{}
	isFresh   bool
}

// NewResolver returns a Resolver that knows no objects. options are as World.Options, and inForce are the Routes that the proxies have, as in World.InForce.
func NewResolver(options Options, inForce []ir.Route) *Resolver {
	r := &Resolver{
		options: options, namespaces: map[string]*census{}, tunings: Tunings{},
		objects: map[ir.Key]*objectState{}, services: map[ir.Key]*serviceState{}, slices: map[ir.Key]*EndpointSlice{},
		sites: map[site]*claims{}, unsettled: map[ir.Key]struct{}{}, isFresh: true,
	}
	for _, route := range inForce {
		is := r.object(route.Owner)
		is.inForce = append(is.inForce, route)
	}
	return r
}

// object returns what is known of an object, and begins it if need be.
func (r *Resolver) object(key ir.Key) *objectState {
	if r.objects[key] == nil {
		r.objects[key] = new(objectState)
	}
	return r.objects[key]
}

// service returns what is known of a Service, and begins it if need be.
func (r *Resolver) service(key ir.Key) *serviceState {
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
func (r *Resolver) Service(service ir.Key) (*Service, []*EndpointSlice) {
	if is := r.services[service]; is != nil {
		return is.service, is.slices
	}
	return nil, nil
}

// InForce returns what an object has in force, the zero value for nothing. Nobody may change it.
func (r *Resolver) InForce(object ir.Key) ir.Config {
	if is := r.objects[object]; is != nil {
		return r.config(is.inForce)
	}
	return ir.Config{}
}

// Update takes note of change and returns what it leads to. The first Update has to bring all objects, and tells everything.
func (r *Resolver) Update(change Change) Outcome {
	u := update{
		Resolver: r, dirty: r.unsettled, stale: map[ir.Key]struct{}{}, touched: map[site]struct{}{}, concerned: map[ir.Key]struct{}{},
		members: map[member]struct{}{}, sites: map[site]struct{}{},
	}
	r.unsettled = map[ir.Key]struct{}{}
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
	problems := make(map[ir.Key][]ir.Problem, len(u.concerned))
	for key := range u.concerned {
		problems[key] = u.grant(key)
	}
	u.refresh()
	r.isFresh = false
	outcome := Outcome{Updates: u.told(), Problems: problems, Concerned: u.concerned, Proxies: u.proxies()}
	u.forget()
	return outcome
}

// update is one Update under way.
type update struct {
	*Resolver

	dirty     map[ir.Key]struct{} // objects to resolve again
	stale     map[ir.Key]struct{} // Services of which the endpoints may be others
	touched   map[site]struct{}   // sites of which the claims changed
	concerned map[ir.Key]struct{} // as in Outcome; until refresh, those whose Routes in force or Problems may be others
	members   map[member]struct{} // objects that are new in the Config of a fleet
	sites     map[site]struct{}   // sites that are
	loose     []ir.Key            // Services that may matter to nobody any more
}

// member is an object that a fleet serves.
type member struct {
	fleet  ir.Fleet
	object ir.Key
}

func (u *update) takeServices(changed map[ir.Key]*Service) {
	for key, service := range changed {
		is := u.service(key)
		is.service = service
		u.stale[key], u.loose = struct{}{}, append(u.loose, key)
		for _, object := range is.readers {
			u.dirty[object] = struct{}{}
		}
	}
}

func (u *update) takeSlices(changed map[ir.Key]*EndpointSlice) {
	for key, slice := range changed {
		if before := u.slices[key]; before != nil {
			of := u.service(before.Service)
			of.slices = slices.DeleteFunc(slices.Clone(of.slices), func(each *EndpointSlice) bool { return each == before })
			u.stale[before.Service], u.loose = struct{}{}, append(u.loose, before.Service)
		}
		if slice == nil {
			delete(u.slices, key)
			continue
		}
		u.slices[key] = slice
		of := u.service(slice.Service)
		of.slices = append(slices.Clip(of.slices), slice)
		u.stale[slice.Service] = struct{}{}
	}
}

func (u *update) takeScaledObjects(changed map[ir.Key]*httpv1alpha1.HTTPScaledObject) {
	namespaces := map[string]struct{}{}
	for key, object := range changed {
		is := u.object(key)
		censusOf(u.namespaces, key.Namespace).replace(key, is.object, object)
		is.object = object
		namespaces[key.Namespace], u.dirty[key] = struct{}{}, struct{}{}
	}
	for namespace := range namespaces {
		own := u.namespaces[namespace]
		find := func(name string) *httpv1alpha1.HTTPScaledObject {
			return u.objects[ir.Key{Namespace: namespace, Name: name}].object
		}
		for _, key := range own.judge(u.options, find) {
			u.dirty[key] = struct{}{}
		}
		if len(own.objects) == 0 {
			delete(u.namespaces, namespace)
		}
	}
	if u.isFresh {
		for key := range u.objects {
			u.dirty[key] = struct{}{} // Some may be gone.
		}
	}
}

// takeTunings takes note of changed settings. The objects of a namespace are resolved again if they are about it, and all
// objects if they are about all.
func (u *update) takeTunings(changed Tunings) {
	for namespace, tuning := range changed {
		if before := u.tunings[namespace]; before.Equal(tuning) {
			continue
		}
		if u.tunings[namespace] = tuning; tuning == nil {
			delete(u.tunings, namespace)
		}
		for key := range u.objects {
			if namespace == "" || key.Namespace == namespace {
				u.dirty[key] = struct{}{}
			}
		}
	}
}

// ask finds out what one object asks for.
func (u *update) ask(key ir.Key) {
	is := u.object(key)
	before, now := is.asked, asked{}
	if is.object != nil {
		now = u.resolve(is)
	}
	is.asked = now
	for _, service := range before.reads {
		of := u.services[service]
		of.readers, u.loose = without(of.readers, key), append(u.loose, service)
	}
	for _, service := range now.reads {
		of := u.service(service)
		of.readers = append(of.readers, key)
	}
	u.concerned[key] = struct{}{}
	if slices.EqualFunc(before.routes, now.routes, ir.Route.Equal) {
		return
	}
	claimed := divide(now.routes)
	for at := range divide(before.routes) {
		if _, still := claimed[at]; !still {
			claimed[at] = nil
		}
	}
	for at, routes := range claimed {
		if u.Resolver.sites[at] == nil {
			u.Resolver.sites[at] = new(claims)
		}
		u.Resolver.sites[at].claim(key, routes)
		u.touched[at] = struct{}{}
	}
}

// resolve resolves one object and notes the Services that it looked at.
func (r *Resolver) resolve(is *objectState) asked {
	var now asked
	find := func(service ir.Key) *Service {
		if !slices.Contains(now.reads, service) {
			now.reads = append(now.reads, service)
		}
		if of := r.services[service]; of != nil {
			return of.service
		}
		return nil
	}
	by := ownerOf(is.object)
	if wrong, isOver := r.namespaces[by.key.Namespace].excess[by.key]; isOver {
		return asked{mistakes: problemsOf(is.object, wrong)}
	}
	inForce := is.inForce
	if len(inForce) > 0 && inForce[0].UID != by.uid {
		inForce = nil // It was another object's.
	}
	now.routes, now.mistakes = resolveObject(is.object, choices{r.options, r.tunings.of(by.key.Namespace)}, find, inForce)
	if len(now.mistakes) > 0 {
		now.onTop = inForce
	}
	return now
}

// settle decides who gets what of a site.
func (u *update) settle(at site) {
	claims := u.Resolver.sites[at]
	concerned, changed := claims.settle()
	maps.Copy(u.concerned, concerned)
	if changed || u.isFresh {
		u.sites[at] = struct{}{}
	}
	if len(claims.claimed) == 0 {
		delete(u.Resolver.sites, at)
	}
}

// grant works out what an object has in force now, and returns its Problems.
func (u *update) grant(key ir.Key) []ir.Problem {
	is := u.object(key)
	granted := make([]ir.Route, 0, len(is.routes))
	lost := map[ir.Key][]ir.Match{}
	for _, route := range is.routes {
		if winner, _ := u.Resolver.sites[siteOf(route)].winner(route.Match); winner.Owner != key {
			lost[winner.Owner] = append(lost[winner.Owner], route.Match)
		} else {
			granted = append(granted, route)
		}
	}
	if len(lost) == 0 {
		granted = is.routes
	}
	if u.isFresh || !slices.EqualFunc(granted, is.inForce, ir.Route.Equal) {
		u.put(key, is, granted)
	}
	if len(is.mistakes) > 0 && !slices.EqualFunc(granted, is.onTop, ir.Route.Equal) {
		u.unsettled[key] = struct{}{}
	}
	problems := slices.Clone(is.mistakes)
	for winner, matches := range lost {
		problems = append(problems, conflict(key, winner, matches))
	}
	slices.SortFunc(problems, ir.Problem.Compare)
	return slices.Compact(problems)
}

// put sets what an object has in force, and keeps account of where that leads.
func (u *update) put(key ir.Key, is *objectState, routes []ir.Route) {
	for _, each := range [][]ir.Route{is.inForce, routes} {
		if len(each) > 0 {
			u.members[member{each[0].Fleet, key}] = struct{}{}
		}
	}
	for _, port := range portsOf(is.inForce) {
		// It stays for now: maybe it comes back at once, and refresh has to know what was there. At first
		// nothing is in use.
		if of := u.services[port.Service]; of != nil && of.port(port.Port) != nil {
			used := of.port(port.Port)
			used.users, u.loose = without(used.users, key), append(u.loose, port.Service)
		}
	}
	is.inForce = routes
	for _, port := range portsOf(routes) {
		of := u.service(port.Service)
		if of.port(port.Port) == nil {
			of.ports = append(slices.Clip(of.ports), portState{number: port.Port, found: endpointsOfPort(of.service, of.slices, port.Port)})
		}
		used := of.port(port.Port)
		used.users = append(used.users, key)
	}
}

// refresh looks for the endpoints of Services of which they may be others. Whoever uses such a Service is concerned in any case: its Pods may be others
// while its endpoints are the same.
func (u *update) refresh() {
	for service := range u.stale {
		of := u.services[service]
		of.addUsers(u.concerned)
		for i := range of.ports {
			port := &of.ports[i]
			before, now := port.found, endpointsOfPort(of.service, of.slices, port.number)
			port.found = now
			if before.Equal(now) {
				continue
			}
			for _, key := range port.users {
				routes := u.objects[key].inForce
				u.members[member{routes[0].Fleet, key}] = struct{}{}
				if (len(before.Ready) == 0) == (len(now.Ready) == 0) && before.IsMissing == now.IsMissing {
					continue // The weights in effect are the same, and who is held.
				}
				for _, route := range routes {
					u.sites[siteOf(route)] = struct{}{}
				}
			}
		}
	}
}

// forget drops what matters to nobody any more.
func (u *update) forget() {
	for _, key := range u.loose {
		of := u.services[key]
		if of == nil {
			continue
		}
		of.ports = slices.DeleteFunc(of.ports, func(port portState) bool { return len(port.users) == 0 })
		if of.service == nil && len(of.slices)+len(of.readers)+len(of.ports) == 0 {
			delete(u.services, key)
		}
	}
	for key := range u.concerned {
		if is := u.objects[key]; is.object == nil && len(is.inForce) == 0 {
			delete(u.objects, key)
		}
	}
}
