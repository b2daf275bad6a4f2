package xds

import (
	"net/netip"
	"time"
)

// DefaultLeaveDelay is how long a proxy that is about to go takes new connections yet: longer than Services and
// Ingress controllers need to learn of a Pod's end.
const DefaultLeaveDelay = 5 * time.Second

// WithLeaving has a proxy that is about to go lose the named listeners, so long after [Server.SetMembers] has said
// that it goes. Envoy then takes no new connection, and ends the ones that it has in an orderly way
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/operations/draining). The delay is for load
// balancers, which learn of it no sooner than this server. Without it a proxy that goes is served like any other.
func WithLeaving(delay time.Duration, listeners ...string) Option {
	return func(s *Server) { s.leaveDelay, s.leftListeners = max(0, delay), listeners }
}

// leaving is how the proxy of one stream goes. The zero value is one that stays.
type leaving struct {
	// due is when it loses listeners; nil before it is known to go.
	due <-chan time.Time
	// gone are the listeners that it has lost.
	gone []string
}

// heed begins to wait if the proxy of an address is about to go. It doesn't come back from there.
func (l *leaving) heed(s *Server, members *membership, address netip.Addr) {
	if _, leaves := members.leaving[address]; leaves && l.due == nil && len(s.leftListeners) > 0 {
		l.due = time.After(s.leaveDelay)
	}
}

// view is what the proxy is to have of a snapshot, which may be nil.
func (l *leaving) view(of *snapshot) *snapshot {
	if of == nil || len(l.gone) == 0 {
		return of
	}
	changed := map[string]*resource{}
	for _, name := range l.gone {
		if of.resources[listenerKind].get(name) != nil {
			changed[name] = nil
		}
	}
	left := &snapshot{resources: of.resources}
	left.resources[listenerKind] = left.resources[listenerKind].with(changed)
	return left
}
