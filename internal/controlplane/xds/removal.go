package xds

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
)

// lingers tells whether a resource that is no longer desired has to stay on the stream for now: a
// cluster that routes may name, and its endpoints.
func (s *session) lingers(k kind, name string) bool {
	due, leaves := s.pendingRemoval[name]
	switch k {
	case clusterKind:
		s.pendingRemoval[name] = due
		return !fault.ClusterBeforeRoute && (due.IsZero() || s.now.Before(due) || s.mayBeUsed(name))
	case endpointKind:
		return leaves
	default:
		return false
	}
}

// releaseDue lets the clusters go whose grace has passed.
func (s *session) releaseDue() {
	for name, due := range s.pendingRemoval {
		if !due.IsZero() && !s.now.Before(due) {
			s.subs[clusterKind].dirty.add(name)
		}
	}
}

// scheduleRemovals starts the grace of clusters that no route can name any more, and stops it for
// those that one names again.
func (s *session) scheduleRemovals() {
	for name, due := range s.pendingRemoval {
		switch used := s.mayBeUsed(name); {
		case used:
			s.pendingRemoval[name] = time.Time{}
		case due.IsZero():
			s.pendingRemoval[name] = s.now.Add(s.grace)
		}
	}
}

// leave takes listeners away from the proxy, which is about to go. It doesn't come back from there.
func (s *session) leave(now time.Time, listeners []string) output {
	for _, name := range listeners {
		s.find(listenerKind, name) // What is taken away has to have a record.
		s.subs[listenerKind].dirty.add(name)
	}
	s.left = listeners
	return s.tick(now)
}

// forgetEndpoints takes the ACK of the endpoints back with that of their cluster, which goes in the
// response of the given number: should the cluster return, it has to be warm anew before a route
// may name it.
func (s *session) forgetEndpoints(cluster *record, number uint64) {
	if cluster.sent == nil {
		return
	}
	name := cluster.sent.name
	cluster.warming = false
	sub := &s.subs[endpointKind]
	if rec := s.find(endpointKind, name); rec != nil {
		sub.note(name)
		rec.lastAcked, rec.since = nil, number
		rec.force = s.snapshot.resources[endpointKind].get(name) != nil
		sub.dirty.add(name)
	}
}
