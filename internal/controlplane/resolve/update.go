package resolve

import (
	"maps"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// update is one Update under way.
type update struct {
	*Resolver

	dirty     map[model.Key]struct{} // objects to resolve again
	stale     map[model.Key]struct{} // Services of which the endpoints may be others
	touched   map[site]struct{}   // sites of which the claims changed
	concerned map[model.Key]struct{} // as in Outcome; until refresh, those whose Routes in force or Problems may be others
	members   map[member]struct{} // objects that are new in the Config of a fleet
	sites     map[site]struct{}   // sites that are
	loose     []model.Key            // Services that may matter to nobody any more
}

// member is an object that a fleet serves.
type member struct {
	fleet  model.Fleet
	object model.Key
}

func (u *update) takeServices(changed map[model.Key]*Service) {
	for key, service := range changed {
		is := u.service(key)
		is.service = service
		u.stale[key], u.loose = struct{}{}, append(u.loose, key)
		for _, object := range is.readers {
			u.dirty[object] = struct{}{}
		}
	}
}

func (u *update) takeSlices(changed map[model.Key]*EndpointSlice) {
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

func (u *update) takeScaledObjects(changed map[model.Key]*httpv1alpha1.HTTPScaledObject) {
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
			return u.objects[model.Key{Namespace: namespace, Name: name}].object
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
func (u *update) ask(key model.Key) {
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
	if slices.EqualFunc(before.routes, now.routes, model.Route.Equal) {
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
	find := func(service model.Key) *Service {
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
func (u *update) grant(key model.Key) []model.Problem {
	is := u.object(key)
	granted := make([]model.Route, 0, len(is.routes))
	lost := map[model.Key][]model.Match{}
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
	if u.isFresh || !slices.EqualFunc(granted, is.inForce, model.Route.Equal) {
		u.put(key, is, granted)
	}
	if len(is.mistakes) > 0 && !slices.EqualFunc(granted, is.onTop, model.Route.Equal) {
		u.unsettled[key] = struct{}{}
	}
	problems := slices.Clone(is.mistakes)
	for winner, matches := range lost {
		problems = append(problems, conflict(key, winner, matches))
	}
	slices.SortFunc(problems, model.Problem.Compare)
	return slices.Compact(problems)
}

// put sets what an object has in force, and keeps account of where that leads.
func (u *update) put(key model.Key, is *objectState, routes []model.Route) {
	for _, each := range [][]model.Route{is.inForce, routes} {
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
