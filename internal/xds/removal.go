package xds

import "time"

// departure is a cluster's way off the stream.
type departure struct {
	// due is the end of the grace; zero while the proxy may hold a route that names the cluster.
	due time.Time
	// over is true once the grace has passed.
	over bool
}

// lingers tells whether a resource that is no longer desired has to stay on the stream for now: a
// cluster that routes may name, and its endpoints.
func (s *session) lingers(k kind, name string) bool {
	switch k {
	case clusterKind:
		if _, leaves := s.pendingRemoval[name]; !leaves {
			s.pendingRemoval[name] = departure{}
		}
		return !s.pendingRemoval[name].over || s.mayBeUsed(name)
	case endpointKind:
		_, leaves := s.pendingRemoval[name]
		return leaves
	default:
		return false
	}
}

// releaseDue lets the clusters go whose grace has passed.
func (s *session) releaseDue(now time.Time) {
	for name, d := range s.pendingRemoval {
		if !d.over && !d.due.IsZero() && !now.Before(d.due) {
			s.pendingRemoval[name] = departure{due: d.due, over: true}
			s.subs[clusterKind].dirty.add(name)
		}
	}
}

// scheduleRemovals starts the grace of clusters that no route can name any more, and stops it for
// those that one names again.
func (s *session) scheduleRemovals(now time.Time) {
	for name, d := range s.pendingRemoval {
		switch used := s.mayBeUsed(name); {
		case used:
			s.pendingRemoval[name] = departure{}
		case d.due.IsZero():
			s.pendingRemoval[name] = departure{due: now.Add(s.grace)}
		}
	}
}

// forgetEndpoints takes the ACK of the endpoints back with that of their cluster, which goes in the
// response of the given number: should the cluster return, it has to be warm anew before a route
// may name it.
func (s *session) forgetEndpoints(cluster *record, number uint64) {
	if cluster.sent == nil {
		return
	}
	name := cluster.sent.name
	delete(s.warming, name)
	sub := &s.subs[endpointKind]
	if rec := s.find(endpointKind, name); rec != nil {
		sub.note(name)
		rec.lastAcked, rec.since = nil, number
		rec.force = s.snapshot.resources[endpointKind].get(name) != nil
		sub.dirty.add(name)
	}
}
