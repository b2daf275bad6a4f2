package resolve

import (
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// setClaim sets the claim of an object to a host, or removes it if changed is nil.
func (u *update) setClaim(at fleetHost, object model.Key, changed *claim) {
	isShared := at.fleet == u.options.SharedFleet
	if u.hosts[at] == nil {
		u.hosts[at] = new(hostClaims)
		if isShared {
			u.sharedHosts.add(at.host)
		}
	}
	u.claimedHosts[at] = struct{}{}
	if isOtherClaimant := u.hosts[at].set(object, changed); !isOtherClaimant || !isShared || at.host.IsExact() {
		return
	}
	u.sharedHosts.visitBelow(at.host, func(host model.Host) {
		if covered := (fleetHost{at.fleet, host}); u.hosts[covered] != nil {
			u.coveredHosts[covered] = struct{}{}
		}
	})
}

// resolveHosts determines the winning Routes of all hosts with a possible change, wildcards before the hosts that they
// cover.
func (u *update) resolveHosts() {
	hosts := maps.Clone(u.claimedHosts)
	maps.Copy(hosts, u.coveredHosts)
	for _, at := range slices.SortedFunc(maps.Keys(hosts), func(a, b fleetHost) int { return b.host.Compare(a.host) }) {
		u.resolveHost(at)
	}
}

// resolveHost determines the winning Routes of a host.
func (u *update) resolveHost(at fleetHost) {
	claims := u.hosts[at]
	rejected := claims.rejected
	if at.fleet == u.options.SharedFleet {
		claims.setOwners(u.ownersAbove(at))
	}
	affected, changed := claims.resolveConflicts()
	isOtherRejected := !maps.Equal(rejected, claims.rejected)
	if isOtherRejected {
		u.setContested(at, rejected, claims.rejected)
	}
	_, isClaimed := u.claimedHosts[at]
	_, isCovered := u.coveredHosts[at] // Messages of rejected objects name the kind of an owner above, which may be new.
	if isClaimed || changed || isOtherRejected || isCovered && len(claims.rejected) > 0 {
		maps.Copy(u.affected, affected)
		for _, owner := range claims.rejected { // Their warnings name the kinds of the claimants.
			u.affected[owner] = struct{}{}
		}
	}
	if changed || u.isInitial && len(claims.winners) > 0 {
		u.changedHosts[at] = struct{}{}
	}
	if len(claims.claims) == 0 {
		delete(u.hosts, at)
		if at.fleet == u.options.SharedFleet {
			u.sharedHosts.remove(at.host, func(host model.Host) bool { return u.hosts[fleetHost{at.fleet, host}] != nil })
		}
	}
}

// ownersAbove returns the owners of the next claimed wildcard above a host.
func (u *update) ownersAbove(at fleetHost) hostOwners {
	for wildcard, ok := broader(at.host); ok; wildcard, ok = broader(wildcard) {
		if claims := u.hosts[fleetHost{at.fleet, wildcard}]; claims != nil {
			return claims.owners
		}
	}
	return nil
}

// setContested records the rejected claims to a host, and marks the owners that reject them or did before.
func (u *update) setContested(at fleetHost, before, now map[model.Key]model.Key) {
	for _, owner := range before {
		u.affected[owner] = struct{}{}
		if delete(u.contested[owner], at); len(u.contested[owner]) == 0 {
			delete(u.contested, owner)
		}
	}
	for _, owner := range now {
		u.affected[owner] = struct{}{}
		if u.contested[owner] == nil {
			u.contested[owner] = map[fleetHost]struct{}{}
		}
		u.contested[owner][at] = struct{}{}
	}
}

// rejectedClaims returns the claims of an object that owners of hosts reject, sorted.
func (u *update) rejectedClaims(key model.Key, state *objectState) []rejection {
	var rejected []rejection
	add := func(at fleetHost) {
		if owner, isRejected := u.hosts[at].rejected[key]; isRejected {
			rejected = append(rejected, rejection{key, at.host, owner})
		}
	}
	for _, route := range state.routes {
		add(fleetHostOf(route))
	}
	for _, host := range state.named {
		add(fleetHost{u.options.SharedFleet, host})
	}
	slices.SortFunc(rejected, compareRejections)
	return slices.Compact(rejected)
}

// contestedClaims returns the claims that an owner rejects, sorted.
func (u *update) contestedClaims(owner model.Key) []rejection {
	var rejected []rejection
	for at := range u.contested[owner] {
		for claimant, by := range u.hosts[at].rejected {
			if by == owner {
				rejected = append(rejected, rejection{claimant, at.host, owner})
			}
		}
	}
	slices.SortFunc(rejected, compareRejections)
	return rejected
}
