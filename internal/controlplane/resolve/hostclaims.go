package resolve

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// fleetHost is a host of one fleet. The same host of another fleet is independent.
type fleetHost struct {
	fleet model.Fleet
	host  model.Host
}

// fleetHostOf returns the host and fleet of a Route.
func fleetHostOf(route model.Route) fleetHost { return fleetHost{route.Fleet, route.Match.Host} }

// hostClaims are the Routes that objects request for one fleetHost, and the Routes that win.
type hostClaims struct {
	// claims are the requested Routes of each object, in the order of their Matches. Usually there is one object.
	claims []claim
	// winners are the winning Routes in the order of CompareRoutes. byMatch has the same Routes in the order of their
	// Matches.
	winners, byMatch []model.Route
}

// claim contains the Routes that one object requests.
type claim struct {
	owner  model.Key
	routes []model.Route
}

// set replaces the claim of an object, or removes it if routes is empty. The caller has to call resolveConflicts
// afterwards.
func (h *hostClaims) set(owner model.Key, routes []model.Route) {
	h.claims = slices.DeleteFunc(h.claims, func(existing claim) bool { return existing.owner == owner })
	if len(routes) > 0 {
		h.claims = append(h.claims, claim{owner, routes})
	}
}

// resolveConflicts determines the winners. It returns the objects with a possible change of their result, and whether
// any winning Route changed.
func (h *hostClaims) resolveConflicts() (affected map[model.Key]struct{}, changed bool) {
	before := h.winners
	h.winners, h.byMatch = nil, nil
	if len(h.claims) == 1 {
		h.winners = h.claims[0].routes // For Routes of one object both orders are equal.
		h.byMatch = h.winners
	} else if len(h.claims) > 1 {
		var all []model.Route
		for _, current := range h.claims {
			all = append(all, current.routes...)
		}
		slices.SortFunc(all, comparePrecedence)
		h.byMatch = slices.Clip(slices.CompactFunc(all, func(a, b model.Route) bool { return a.Match.Compare(b.Match) == 0 }))
		h.winners = slices.SortedFunc(slices.Values(h.byMatch), model.CompareRoutes)
	}
	affected = make(map[model.Key]struct{}, len(h.claims))
	for _, current := range h.claims {
		affected[current.owner] = struct{}{}
	}
	for _, route := range before {
		affected[route.Owner] = struct{}{}
	}
	return affected, !slices.EqualFunc(before, h.winners, model.Route.Equal)
}

// winner returns the Route that wins a Match. There is one for every claimed Match.
func (h *hostClaims) winner(match model.Match) (model.Route, bool) {
	index, ok := slices.BinarySearchFunc(h.byMatch, match,
		func(route model.Route, match model.Match) int { return route.Match.Compare(match) })
	if !ok {
		return model.Route{}, false
	}
	return h.byMatch[index], true
}

// splitByHost splits the Routes of one object, in the order of their Matches, by host. The results share the memory
// of routes.
func splitByHost(routes []model.Route) map[fleetHost][]model.Route {
	hosts := make(map[fleetHost][]model.Route, 1)
	for first := 0; first < len(routes); {
		at, next := fleetHostOf(routes[first]), first+1
		for next < len(routes) && fleetHostOf(routes[next]) == at {
			next++
		}
		hosts[at] = routes[first:next:next]
		first = next
	}
	return hosts
}
