package resolve

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Change is what is new among the objects that routing depends on, by namespace and name. A nil value says that an object is gone. Objects that are handed
// over are kept and must not change any more.
type Change struct {
	// ScaledObjects are the HTTPScaledObjects that came, changed or went.
	ScaledObjects map[ir.Key]*httpv1alpha1.HTTPScaledObject
	// Services are the Services that did.
	Services map[ir.Key]*corev1.Service
	// EndpointSlices are the EndpointSlices that did, by the name of the slice.
	EndpointSlices map[ir.Key]*discoveryv1.EndpointSlice
}

// Outcome is what a Change leads to.
type Outcome struct {
	// Updates are what is new in the Config of each fleet. An object that moves from one fleet to
	// another one is in both.
	Updates map[ir.Fleet]ir.Update
	// Problems are the mistakes of each object that was looked at, sorted, and none for one in which nothing is wrong or that is gone. Those of other
	// objects are what they were.
	Problems map[ir.Key][]ir.Problem
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

	objects  map[ir.Key]*httpv1alpha1.HTTPScaledObject
	services serviceIndex
	slices   sliceIndex
	named    map[ir.Key]*discoveryv1.EndpointSlice // the slices by their own names

	asked   map[ir.Key]asked
	readers index[ir.Key] // the objects that a Service matters to
	sites   map[site]*claims
	inForce map[ir.Key][]ir.Route
	ports   map[ir.Key][]ir.ServicePort // what inForce leads to
	users   index[ir.ServicePort]       // the objects whose Routes in force lead there
	used    map[ir.Key][]uint32         // the ports of a Service that have users
	found   map[ir.ServicePort]ir.Endpoints

	// unsettled are objects with mistakes that now have something else in force than when they were resolved.
	unsettled map[ir.Key]struct{}
	isFresh   bool
}

// index finds the objects that something matters to. They are few, mostly one, so they are listed.
type index[K comparable] map[K][]ir.Key

// add says that key matters to an object, which it has not done before, and remove that it no longer does.
func (x index[K]) add(key K, object ir.Key) {
	x[key] = append(slices.Clip(x[key]), object)
}

func (x index[K]) remove(key K, object ir.Key) {
	rest := slices.DeleteFunc(x[key], func(each ir.Key) bool { return each == object })
	if len(rest) == 0 {
		delete(x, key)
	} else {
		x[key] = rest
	}
}

// asked is what an object asks for as if it were the only one.
type asked struct {
	routes   []ir.Route // in the order of their Matches
	mistakes []ir.Problem
	reads    []ir.Key   // the Services that this depends on
	onTop    []ir.Route // what was in force; kept of an object with mistakes, for which it matters
}

// NewResolver returns a Resolver that knows no objects. options are as World.Options, and inForce is the Config that the proxies have, as World.InForce.
func NewResolver(options Options, inForce ir.Config) *Resolver {
	r := &Resolver{
		options: options, namespaces: map[string]*census{},
		objects: map[ir.Key]*httpv1alpha1.HTTPScaledObject{}, services: serviceIndex{}, slices: sliceIndex{}, named: map[ir.Key]*discoveryv1.EndpointSlice{},
		asked: map[ir.Key]asked{}, readers: index[ir.Key]{}, sites: map[site]*claims{}, inForce: map[ir.Key][]ir.Route{},
		ports: map[ir.Key][]ir.ServicePort{}, users: index[ir.ServicePort]{}, used: map[ir.Key][]uint32{}, found: map[ir.ServicePort]ir.Endpoints{},
		unsettled: map[ir.Key]struct{}{}, isFresh: true,
	}
	for _, route := range inForce.Routes {
		r.inForce[route.Owner] = append(r.inForce[route.Owner], route)
	}
	return r
}

// Service returns a Service and its EndpointSlices as the Resolver knows them, nil for none. Nobody may change them.
func (r *Resolver) Service(service ir.Key) (*corev1.Service, []*discoveryv1.EndpointSlice) {
	return r.services[service], r.slices[service]
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
	u.forget()
	r.isFresh = false
	return Outcome{Updates: u.told(), Problems: problems, Proxies: u.proxies()}
}

// update is one Update under way.
type update struct {
	*Resolver

	dirty     map[ir.Key]struct{} // objects to resolve again
	stale     map[ir.Key]struct{} // Services of which the endpoints may be others
	touched   map[site]struct{}   // sites of which the claims changed
	concerned map[ir.Key]struct{} // objects whose Routes in force or Problems may be others
	members   map[member]struct{} // objects that are new in the Config of a fleet
	sites     map[site]struct{}   // sites that are
	left      []ir.ServicePort    // ports that some object used last
}

// member is an object that a fleet serves.
type member struct {
	fleet  ir.Fleet
	object ir.Key
}

func (u *update) takeServices(changed map[ir.Key]*corev1.Service) {
	for key, service := range changed {
		if service == nil {
			delete(u.services, key)
		} else {
			u.services[key] = service
		}
		u.stale[key] = struct{}{}
		for _, object := range u.readers[key] {
			u.dirty[object] = struct{}{}
		}
	}
}

func (u *update) takeSlices(changed map[ir.Key]*discoveryv1.EndpointSlice) {
	for key, slice := range changed {
		if before := u.named[key]; before != nil {
			service := serviceOf(before)
			u.slices[service] = slices.DeleteFunc(slices.Clone(u.slices[service]), func(each *discoveryv1.EndpointSlice) bool { return each == before })
			if len(u.slices[service]) == 0 {
				delete(u.slices, service)
			}
			u.stale[service] = struct{}{}
		}
		if slice == nil {
			delete(u.named, key)
			continue
		}
		u.named[key] = slice
		service := serviceOf(slice)
		u.slices[service] = append(slices.Clip(u.slices[service]), slice)
		u.stale[service] = struct{}{}
	}
}

func (u *update) takeScaledObjects(changed map[ir.Key]*httpv1alpha1.HTTPScaledObject) {
	namespaces := map[string]struct{}{}
	for key, object := range changed {
		censusOf(u.namespaces, key.Namespace).replace(key, u.objects[key], object)
		namespaces[key.Namespace] = struct{}{}
		if object == nil {
			delete(u.objects, key)
		} else {
			u.objects[key] = object
		}
		u.dirty[key] = struct{}{}
	}
	for namespace := range namespaces {
		own := u.namespaces[namespace]
		for _, key := range own.judge(u.options, u.objects) {
			u.dirty[key] = struct{}{}
		}
		if len(own.objects) == 0 {
			delete(u.namespaces, namespace)
		}
	}
	if u.isFresh {
		for key := range u.inForce {
			u.dirty[key] = struct{}{} // Some may be gone.
		}
	}
}

// ask finds out what one object asks for.
func (u *update) ask(key ir.Key) {
	before, now := u.asked[key], asked{}
	if object := u.objects[key]; object != nil {
		now = u.resolve(object)
		u.asked[key] = now
	} else {
		delete(u.asked, key)
	}
	for _, service := range before.reads {
		u.readers.remove(service, key)
	}
	for _, service := range now.reads {
		u.readers.add(service, key)
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
			u.Resolver.sites[at] = &claims{byOwner: make(map[ir.Key][]ir.Route, 1)}
		}
		u.Resolver.sites[at].claim(key, routes)
		u.touched[at] = struct{}{}
	}
}

// resolve resolves one object and notes the Services that it looked at.
func (r *Resolver) resolve(object *httpv1alpha1.HTTPScaledObject) asked {
	var now asked
	find := func(service ir.Key) *corev1.Service {
		if !slices.Contains(now.reads, service) {
			now.reads = append(now.reads, service)
		}
		return r.services[service]
	}
	by := ownerOf(object)
	if wrong, isOver := r.namespaces[by.key.Namespace].excess[by.key]; isOver {
		return asked{mistakes: problemsOf(object, wrong)}
	}
	inForce := r.inForce[by.key]
	if len(inForce) > 0 && inForce[0].UID != by.uid {
		inForce = nil // It was another object's.
	}
	now.routes, now.mistakes = resolveObject(object, r.options, find, inForce)
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
	if len(claims.byOwner) == 0 {
		delete(u.Resolver.sites, at)
	}
}

// grant works out what an object has in force now, and returns its Problems.
func (u *update) grant(key ir.Key) []ir.Problem {
	is := u.asked[key]
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
	if u.isFresh || !slices.EqualFunc(granted, u.inForce[key], ir.Route.Equal) {
		u.put(key, granted)
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
func (u *update) put(key ir.Key, routes []ir.Route) {
	for _, each := range [][]ir.Route{u.inForce[key], routes} {
		if len(each) > 0 {
			u.members[member{each[0].Fleet, key}] = struct{}{}
		}
	}
	for _, port := range u.ports[key] {
		if u.users.remove(port, key); len(u.users[port]) == 0 {
			u.left = append(u.left, port) // Maybe it comes back at once, and refresh has to know what was there.
		}
	}
	if len(routes) == 0 {
		delete(u.inForce, key)
		delete(u.ports, key)
		return
	}
	u.inForce[key], u.ports[key] = routes, portsOf(routes)
	for _, port := range u.ports[key] {
		u.users.add(port, key)
		if _, known := u.found[port]; !known {
			u.used[port.Service] = append(slices.Clip(u.used[port.Service]), port.Port)
			u.found[port] = endpointsOfPort(port, u.services, u.slices)
		}
	}
}

// refresh looks for the endpoints of Services of which they may be others.
func (u *update) refresh() {
	for service := range u.stale {
		for _, number := range u.used[service] {
			port := ir.ServicePort{Service: service, Port: number}
			before, now := u.found[port], endpointsOfPort(port, u.services, u.slices)
			u.found[port] = now
			if before.Equal(now) {
				continue
			}
			for _, key := range u.users[port] {
				u.members[member{u.inForce[key][0].Fleet, key}] = struct{}{}
				if (len(before.Ready) == 0) == (len(now.Ready) == 0) && before.IsMissing == now.IsMissing {
					continue // The weights in effect are the same, and who is held.
				}
				for _, route := range u.inForce[key] {
					u.sites[siteOf(route)] = struct{}{}
				}
			}
		}
	}
}

// forget drops what is known of ports that nobody uses any more.
func (u *update) forget() {
	for _, port := range u.left {
		if len(u.users[port]) > 0 {
			continue
		}
		delete(u.found, port)
		rest := slices.DeleteFunc(u.used[port.Service], func(number uint32) bool { return number == port.Port })
		if len(rest) == 0 {
			delete(u.used, port.Service)
		} else {
			u.used[port.Service] = rest
		}
	}
}
