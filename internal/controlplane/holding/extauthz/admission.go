package extauthz

import (
	"net/netip"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// spareCalls is how many calls of a proxy may run in addition to those that the limits let wait: calls of requests that
// are answered at once.
const spareCalls = 100

// admission counts the calls that run: those that are read, that wait for the stream of their proxy, or that are
// queued. It bounds their memory before anything of a call is read. It is not safe for concurrent use.
type admission struct {
	limits  holding.Limits
	total   int
	proxies map[netip.Addr]int
	fleets  map[model.Fleet]int
	// fleetOf are the fleets of addresses; "" for an address of several ones.
	fleetOf map[netip.Addr]model.Fleet
	// isShared is true if there are several fleets.
	isShared bool
}

func newAdmission(limits holding.Limits) *admission {
	return &admission{limits: limits, proxies: map[netip.Addr]int{}, fleets: map[model.Fleet]int{}}
}

// setProxies sets the addresses of all fleets.
func (a *admission) setProxies(fleets map[model.Fleet][]model.Proxy) {
	a.fleetOf, a.isShared = map[netip.Addr]model.Fleet{}, len(fleets) > 1
	for fleet, proxies := range fleets {
		for _, proxy := range proxies {
			for _, address := range proxy.Addresses {
				if other, isKnown := a.fleetOf[address]; isKnown && other != fleet {
					a.fleetOf[address] = ""
				} else {
					a.fleetOf[address] = fleet
				}
			}
		}
	}
}

// enter counts a call of a proxy, and returns false if a limit does not allow it. Of several fleets, one has at most as
// many calls as are free: alone it gets half of them, so it cannot lock out the others. The caller must call leave with
// the same fleet.
func (a *admission) enter(proxy netip.Addr) (fleet model.Fleet, isAdmitted bool) {
	fleet = a.fleetOf[proxy]
	free := a.limits.Total + spareCalls - a.total
	if free <= 0 || a.isShared && a.fleets[fleet] >= free || a.proxies[proxy] >= a.limits.Proxy+spareCalls {
		return fleet, false
	}
	a.add(proxy, fleet, 1)
	return fleet, true
}

// leave ends a call that enter has counted.
func (a *admission) leave(proxy netip.Addr, fleet model.Fleet) { a.add(proxy, fleet, -1) }

// add adds delta to the counts of a call.
func (a *admission) add(proxy netip.Addr, fleet model.Fleet, delta int) {
	a.total += delta
	if a.proxies[proxy] += delta; a.proxies[proxy] == 0 {
		delete(a.proxies, proxy)
	}
	if a.fleets[fleet] += delta; a.fleets[fleet] == 0 {
		delete(a.fleets, fleet)
	}
}
