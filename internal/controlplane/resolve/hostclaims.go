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
	// claims are the claims of objects, oldest first. Usually there is one.
	claims []claim
	// owners are the owners of the host, none in a fleet of one namespace. rejected are the objects without their
	// permission, each with the owner that rejects it.
	owners   hostOwners
	rejected map[model.Key]model.Key
	// winners are the winning Routes in the order of CompareRoutes. byMatch has the same Routes in the order of their
	// Matches.
	winners, byMatch []model.Route
}

// claim contains the Routes that one object requests for a host, in the order of their Matches.
type claim struct {
	claimant

	routes []model.Route
}

// compareClaims orders claims by the age of their objects, oldest first.
func compareClaims(a, b claim) int { return a.compare(b.claimant) }

// set replaces the claim of an object, or removes it if it has no Routes. It reports whether the claimants changed, on
// which the owners of the host and of the hosts below depend. The caller has to call setOwners and resolveConflicts
// afterwards.
func (h *hostClaims) set(changed claim) (isOtherClaimant bool) {
	index := slices.IndexFunc(h.claims, func(existing claim) bool { return existing.object == changed.object })
	isOtherClaimant = index < 0 || len(changed.routes) == 0 || !h.claims[index].equal(changed.claimant)
	if index >= 0 {
		h.claims = slices.Delete(h.claims, index, index+1)
	}
	if len(changed.routes) > 0 {
		at, _ := slices.BinarySearchFunc(h.claims, changed, compareClaims)
		h.claims = slices.Insert(h.claims, at, changed)
	}
	return isOtherClaimant
}

// setOwners determines the owners of the host from those of the next wildcard above it, and the rejected claims.
func (h *hostClaims) setOwners(above hostOwners) {
	h.owners, h.rejected = above.below(h.claims), nil
	for _, current := range h.claims {
		if owner, isBlocked := h.owners.blocker(current.claimant); isBlocked {
			if h.rejected == nil {
				h.rejected = map[model.Key]model.Key{}
			}
			h.rejected[current.object] = owner
		}
	}
}

// permitted returns the claims that are not rejected.
func (h *hostClaims) permitted() []claim {
	if len(h.rejected) == 0 {
		return h.claims
	}
	return slices.DeleteFunc(slices.Clone(h.claims), func(current claim) bool {
		_, isRejected := h.rejected[current.object]
		return isRejected
	})
}

// resolveConflicts determines the winners. It returns the objects with a possible change of their result, and whether
// any winning Route changed.
func (h *hostClaims) resolveConflicts() (affected map[model.Key]struct{}, changed bool) {
	before, permitted := h.winners, h.permitted()
	h.winners, h.byMatch = nil, nil
	if len(permitted) == 1 {
		h.winners = permitted[0].routes // For Routes of one object both orders are equal.
		h.byMatch = h.winners
	} else if len(permitted) > 1 {
		var all []model.Route
		for _, current := range permitted {
			all = append(all, current.routes...)
		}
		slices.SortFunc(all, comparePrecedence)
		h.byMatch = slices.Clip(slices.CompactFunc(all, func(a, b model.Route) bool { return a.Match.Compare(b.Match) == 0 }))
		h.winners = slices.SortedFunc(slices.Values(h.byMatch), model.CompareRoutes)
	}
	affected = make(map[model.Key]struct{}, len(h.claims))
	for _, current := range h.claims {
		affected[current.object] = struct{}{}
	}
	for _, route := range before {
		affected[route.Owner] = struct{}{}
	}
	return affected, !slices.EqualFunc(before, h.winners, model.Route.Equal)
}

// winner returns the Route that wins a Match. There is one for every Match of a claim that is not rejected.
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
