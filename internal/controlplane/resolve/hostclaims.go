package resolve

import (
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
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

// claim contains the Routes that one object requests for a host, in the order of their Matches. An invalid object may
// claim a host without a Route.
type claim struct {
	claimant

	routes []model.Route
}

// compareClaims orders claims by the age of their objects, oldest first.
func compareClaims(a, b claim) int { return a.compare(b.claimant) }

// set replaces the claim of an object, or removes it if changed is nil. It reports whether the claimants changed, on
// which the owners of the host and of the hosts below depend. The caller has to call setOwners and resolveConflicts
// afterwards.
func (h *hostClaims) set(object model.Key, changed *claim) (isOtherClaimant bool) {
	index := slices.IndexFunc(h.claims, func(existing claim) bool { return existing.object == object })
	isOtherClaimant = index < 0 || changed == nil || !h.claims[index].equal(changed.claimant)
	if index >= 0 {
		h.claims = slices.Delete(h.claims, index, index+1)
	}
	if changed != nil {
		at, _ := slices.BinarySearchFunc(h.claims, *changed, compareClaims)
		h.claims = slices.Insert(h.claims, at, *changed)
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

// claims returns what the object claims, by host: the hosts of its Routes, and those that it names.
func (o resolvedObject) claims(shared model.Fleet) map[fleetHost]claim {
	claims := make(map[fleetHost]claim, 1)
	for at, routes := range splitByHost(o.routes) {
		current := claim{o.claimant, routes}
		current.isRetained = o.named != nil && at.fleet == shared && !slices.Contains(o.named, at.host)
		claims[at] = current
	}
	for _, host := range o.named {
		at := fleetHost{shared, host}
		if _, hasRoutes := claims[at]; !hasRoutes {
			claims[at] = claim{o.claimant, nil}
		}
	}
	return claims
}

// claimsEqual reports whether two results for an object claim the same.
func (o resolvedObject) claimsEqual(other resolvedObject) bool {
	return slices.EqualFunc(o.routes, other.routes, model.Route.Equal) && o.claimant.equal(other.claimant) &&
		(o.named == nil) == (other.named == nil) && slices.Equal(o.named, other.named)
}

// namedHosts returns the hosts of the shared fleet that an invalid object names, and nil for a valid one, which has
// Routes of all of them. They are those of the spec, whatever else is invalid, so that who owns a host depends on the
// stored objects alone, and is the same after a restart. Only if a host does not parse, the published hosts count too:
// it may be one of them. An invalid request for a fleet counts as one for the shared fleet, which is the only one that
// an object can request.
func (o Options) namedHosts(object *httpv1alpha1.HTTPScaledObject, resolved resolvedObject) []model.Host {
	if len(resolved.problems) == 0 {
		return nil
	}
	named := []model.Host{}
	if _, isRequested := object.Annotations[httpv1alpha1.AnnotationFleet]; !isRequested &&
		o.FleetOf(object) != o.SharedFleet {
		return named
	}
	hasIssues := false
	for _, rule := range rulesOf(object.Spec) {
		hosts, issues := rule.parseHosts(true)
		named, hasIssues = append(named, hosts...), hasIssues || len(issues) > 0
	}
	if hasIssues {
		for _, route := range resolved.routes {
			if route.Fleet == o.SharedFleet {
				named = append(named, route.Match.Host)
			}
		}
	}
	return distinct(named)
}
