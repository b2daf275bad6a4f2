package resolve

import (
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// update is the state of one call of Resolver.Update.
type update struct {
	*Resolver

	dirty        map[model.Key]struct{} // objects to resolve
	stale        map[model.Key]struct{} // Services with possibly changed endpoints
	claimedHosts map[fleetHost]struct{} // hosts with changed claims
	coveredHosts map[fleetHost]struct{} // hosts below wildcards with changed claimants
	// as in Outcome; until refreshEndpoints only those with possibly changed Routes or Problems
	affected       map[model.Key]struct{}
	changedObjects map[fleetObject]struct{} // objects that changed in the Config of a fleet
	changedHosts   map[fleetHost]struct{}   // hosts that changed in the Config of a fleet
	unowned        []model.Key              // Services that are possibly unused
}

// fleetObject is an object that a fleet serves.
type fleetObject struct {
	fleet  model.Fleet
	object model.Key
}

func (u *update) applyServices(changed map[model.Key]*Service) {
	for key, service := range changed {
		state := u.service(key)
		state.service = service
		u.stale[key], u.unowned = struct{}{}, append(u.unowned, key)
		for _, object := range state.dependents {
			u.dirty[object] = struct{}{}
		}
	}
}

func (u *update) applySlices(changed map[model.Key]*EndpointSlice) {
	for key, slice := range changed {
		if before := u.slices[key]; before != nil {
			state := u.service(before.Service)
			state.slices = slices.DeleteFunc(slices.Clone(state.slices),
				func(other *EndpointSlice) bool { return other == before })
			u.stale[before.Service], u.unowned = struct{}{}, append(u.unowned, before.Service)
		}
		if slice == nil {
			delete(u.slices, key)
			continue
		}
		u.slices[key] = slice
		state := u.service(slice.Service)
		state.slices = append(slices.Clip(state.slices), slice)
		u.stale[slice.Service] = struct{}{}
	}
}

// applyScaledObjects processes changed objects, and applies the limits of their namespaces and of others.
func (u *update) applyScaledObjects(
	changed map[model.Key]*httpv1alpha1.HTTPScaledObject, namespaces map[string]struct{},
) {
	for key, object := range changed {
		state := u.object(key)
		usageOf(u.namespaces, key.Namespace).replace(key, state.object, object)
		state.object = object
		u.countStatic(key, state)
		namespaces[key.Namespace], u.dirty[key] = struct{}{}, struct{}{}
	}
	for namespace := range namespaces {
		usage := u.namespaces[namespace]
		find := func(name string) *httpv1alpha1.HTTPScaledObject {
			return u.objects[model.Key{Namespace: namespace, Name: name}].object
		}
		for _, key := range usage.applyLimits(u.options, find) {
			u.dirty[key] = struct{}{}
		}
		if len(usage.objects) == 0 {
			delete(u.namespaces, namespace)
		}
	}
	if u.isInitial {
		for key := range u.objects {
			u.dirty[key] = struct{}{} // Some may have been deleted.
		}
	}
}

// applySettings processes changed settings. It marks the objects of the namespace, or all objects if the namespace is
// "".
func (u *update) applySettings(changed SettingsByNamespace) {
	for namespace, settings := range changed {
		if before := u.settings[namespace]; before.Equal(settings) {
			continue
		}
		if u.settings[namespace] = settings; settings == nil {
			delete(u.settings, namespace)
		}
		for key := range u.objects {
			if namespace == "" || key.Namespace == namespace {
				u.dirty[key] = struct{}{}
			}
		}
	}
}

// applyConfigMaps processes changed ConfigMaps. It marks the objects that name them, and returns their namespaces.
func (u *update) applyConfigMaps(changed ConfigMaps) map[string]struct{} {
	namespaces := map[string]struct{}{}
	for name, configMap := range changed {
		if u.configMaps[name].Equal(configMap) {
			continue
		}
		if u.configMaps[name] = configMap; configMap == nil {
			delete(u.configMaps, name)
		}
		for key, state := range u.objects {
			if key.Namespace == name.Namespace && slices.Contains(state.configMaps, name) {
				u.countStatic(key, state)
				namespaces[key.Namespace], u.dirty[key] = struct{}{}, struct{}{}
			}
		}
	}
	return namespaces
}

// countStatic counts the static responses of an object, nil for a deleted one.
func (u *update) countStatic(key model.Key, state *objectState) {
	state.configMaps = nil
	bytes := 0
	if state.object != nil {
		texts := parseStatic(state.object)
		state.configMaps = texts.configMaps(key.Namespace)
		bytes = staticBytes(state.object, texts, u.configMaps)
	}
	usageOf(u.namespaces, key.Namespace).setStatic(key.Name, bytes)
}

// recompute resolves one object and updates its claims.
func (u *update) recompute(key model.Key) {
	state := u.object(key)
	before, now := state.desiredState, desiredState{}
	if state.object != nil {
		now = u.resolve(state)
	}
	state.desiredState = now
	for _, service := range before.services {
		tracked := u.services[service]
		tracked.dependents, u.unowned = without(tracked.dependents, key), append(u.unowned, service)
	}
	for _, service := range now.services {
		tracked := u.service(service)
		tracked.dependents = append(tracked.dependents, key)
	}
	u.affected[key] = struct{}{}
	if before.claimsEqual(now.resolvedObject) {
		return
	}
	claims := now.claims(u.options.SharedFleet)
	for at := range before.claims(u.options.SharedFleet) {
		if _, isClaimed := claims[at]; !isClaimed {
			u.setClaim(at, key, nil)
		}
	}
	for at, changed := range claims {
		u.setClaim(at, key, &changed)
	}
}

// resolve resolves one object and records the Services on which the result depends.
func (r *Resolver) resolve(state *objectState) desiredState {
	var desired desiredState
	lookup := func(service model.Key) *Service {
		if !slices.Contains(desired.services, service) {
			desired.services = append(desired.services, service)
		}
		if tracked := r.services[service]; tracked != nil {
			return tracked.service
		}
		return nil
	}
	identity := ownerOf(state.object)
	if issue, isOver := r.namespaces.overLimits(identity.key); isOver {
		return desiredState{resolvedObject: resolvedObject{problems: problemsOf(state.object, issue)}}
	}
	published := state.published
	if len(published) > 0 && published[0].UID != identity.uid {
		published = nil // They belong to a deleted object of the same name.
	}
	if state.isFrozen {
		return desiredState{resolvedObject: frozenObject(state.object, published)}
	}
	desired.resolvedObject = resolveObject(state.object,
		objectOptions{
			r.options, r.settings.forNamespace(identity.key.Namespace), r.configMaps, r.namespaces.isOverStatic(identity.key),
		}, lookup, published)
	if desired.dependsOnPublished() {
		desired.overlay = published
	}
	return desired
}

// assignRoutes determines the Routes that an object publishes, and returns its Problems.
func (u *update) assignRoutes(key model.Key) []model.Problem {
	state := u.object(key)
	routes := make([]model.Route, 0, len(state.routes))
	lost, foreign := map[model.Key][]model.Match{}, u.rejectedClaims(key, state)
	for _, route := range state.routes {
		claims := u.hosts[fleetHostOf(route)]
		if _, isRejected := claims.rejected[key]; isRejected {
			continue
		} else if winner, _ := claims.winner(route.Match); winner.Owner != key {
			lost[winner.Owner] = append(lost[winner.Owner], route.Match)
		} else {
			routes = append(routes, route)
		}
	}
	if len(lost)+len(foreign) == 0 {
		routes = state.routes
	}
	if u.isInitial || !slices.EqualFunc(routes, state.published, model.Route.Equal) {
		u.setPublished(key, state, routes)
	}
	if state.dependsOnPublished() && !slices.EqualFunc(routes, state.overlay, model.Route.Equal) {
		u.outdated[key] = struct{}{}
	}
	problems := slices.Clone(state.problems)
	for winner, matches := range lost {
		problems = append(problems, conflict(key, winner, matches, u.kindOf))
	}
	problems = append(problems, lostHosts(foreign, u.kindOf)...)
	if contested := u.contestedClaims(key); len(contested) > 0 {
		problems = append(problems, contestedHosts(key, contested, u.kindOf))
	}
	slices.SortFunc(problems, model.Problem.Compare)
	return slices.Compact(problems)
}

// setPublished sets the published Routes of an object and updates the users of their destinations.
func (u *update) setPublished(key model.Key, state *objectState, routes []model.Route) {
	for _, version := range [][]model.Route{state.published, routes} {
		if len(version) > 0 {
			u.changedObjects[fleetObject{version[0].Fleet, key}] = struct{}{}
		}
	}
	for _, port := range portsOf(state.published) {
		// The port stays until prune: the object may use it again in this Update, and refreshEndpoints has to compare
		// its endpoints. In the first Update no port is in use.
		if service := u.services[port.Service]; service != nil && service.port(port.Port) != nil {
			used := service.port(port.Port)
			used.users, u.unowned = without(used.users, key), append(u.unowned, port.Service)
		}
	}
	state.published = routes
	for _, port := range portsOf(routes) {
		service := u.service(port.Service)
		if service.port(port.Port) == nil {
			service.ports = append(slices.Clip(service.ports),
				portState{number: port.Port, endpoints: endpointsOfPort(service.service, service.slices, port.Port)})
		}
		used := service.port(port.Port)
		used.users = append(used.users, key)
	}
}

// refreshEndpoints determines the endpoints of Services with possible changes. All users of such a Service are
// affected: its Pods may have changed even if the endpoints are equal.
func (u *update) refreshEndpoints() {
	for service := range u.stale {
		state := u.services[service]
		state.addDependents(u.affected)
		for i := range state.ports {
			port := &state.ports[i]
			before, now := port.endpoints, endpointsOfPort(state.service, state.slices, port.number)
			port.endpoints = now
			if before.Equal(now) {
				continue
			}
			for _, key := range port.users {
				routes := u.objects[key].published
				u.changedObjects[fleetObject{routes[0].Fleet, key}] = struct{}{}
				if (len(before.Ready) == 0) == (len(now.Ready) == 0) && before.IsMissing == now.IsMissing &&
					(len(before.Hints) == 0) == (len(now.Hints) == 0) {
					continue // Effective weights, queueing and retries do not change.
				}
				for _, route := range routes {
					u.changedHosts[fleetHostOf(route)] = struct{}{}
				}
			}
		}
	}
}

// prune removes unused state.
func (u *update) prune() {
	for _, key := range u.unowned {
		service := u.services[key]
		if service == nil {
			continue
		}
		service.ports = slices.DeleteFunc(service.ports, func(port portState) bool { return len(port.users) == 0 })
		if service.service == nil && len(service.slices)+len(service.dependents)+len(service.ports) == 0 {
			delete(u.services, key)
		}
	}
	for key := range u.affected {
		if state := u.objects[key]; state.object == nil && len(state.published) == 0 {
			delete(u.objects, key)
		}
	}
}
