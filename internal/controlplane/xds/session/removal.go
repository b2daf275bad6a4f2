package session

import (
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
)

// isDraining reports whether a resource that is no longer desired must stay on the stream for now: a cluster that
// scopes may name, and its endpoints.
func (s *Session) isDraining(k Kind, name string) bool {
	due, isPending := s.pendingRemoval[name]
	switch k {
	case ClusterKind:
		s.pendingRemoval[name] = due
		return !fault.ClusterBeforeRoute && (due.IsZero() || s.now.Before(due) || s.mayBeUsed(name))
	case EndpointKind:
		return isPending
	default:
		return false
	}
}

// markExpired marks the clusters as dirty whose grace period is over.
func (s *Session) markExpired() {
	for name, due := range s.pendingRemoval {
		if !due.IsZero() && !s.now.Before(due) {
			s.subs[ClusterKind].dirty.add(name)
		}
	}
}

// scheduleRemovals starts the grace period of clusters that no scope can name any more, and stops it for clusters that
// a scope names again.
func (s *Session) scheduleRemovals() {
	for name, due := range s.pendingRemoval {
		switch isUsed := s.mayBeUsed(name); {
		case isUsed:
			s.pendingRemoval[name] = time.Time{}
		case due.IsZero():
			s.pendingRemoval[name] = s.now.Add(s.grace)
		}
	}
}

// WithholdListeners sets the listeners that the proxy must not have, whatever is published. The names replace those of
// the previous call: listeners are removed from the proxy or sent to it accordingly.
func (s *Session) WithholdListeners(now time.Time, names []string) Output {
	sub := &s.subs[ListenerKind]
	for _, name := range slices.Concat(s.withheldListeners, names) {
		if sub.wants(name) && slices.Contains(s.withheldListeners, name) != slices.Contains(names, name) {
			s.ensureRecord(ListenerKind, name) // Before the change, because a synced resource has no record.
			sub.dirty.add(name)
		}
	}
	s.withheldListeners = names
	return s.Tick(now)
}

// revokeEndpoints revokes the ACK of the endpoints of a cluster that is removed by the response of the given number. If
// the cluster returns, it must be warm again before a scope may name it.
func (s *Session) revokeEndpoints(cluster *record, number uint64) {
	if cluster.sent == nil {
		return
	}
	name := cluster.sent.name
	cluster.warming = false
	sub := &s.subs[EndpointKind]
	if rec := s.recordOf(EndpointKind, name); rec != nil {
		sub.markChanged(name)
		rec.lastAcked, rec.createdAfter = nil, number
		rec.resend = s.snapshot.resources[EndpointKind].get(name) != nil
		sub.dirty.add(name)
	}
}
