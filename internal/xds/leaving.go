package xds

import "time"

// departure is a cluster's way off the stream.
type departure struct {
	// due is the end of the grace; zero while the proxy may hold a route that
	// names the cluster.
	due time.Time
	// over is true once the grace has passed.
	over bool
}

// lingers tells whether a resource that left the world has to stay on the stream
// for now: a cluster that routes may name, and its endpoints.
func (s *session) lingers(k kind, name string) bool {
	switch k {
	case clusterKind:
		if _, leaves := s.leaving[name]; !leaves {
			s.leaving[name] = departure{}
		}
		return !s.leaving[name].over || s.mayBeUsed(name)
	case endpointKind:
		if s.leavesWith(name, name) {
			return true
		}
		for cluster := range s.leaving {
			if s.leavesWith(cluster, name) {
				return true
			}
		}
		return false
	default:
		return false
	}
}

// leavesWith tells whether the cluster is leaving and gets the named endpoints.
func (s *session) leavesWith(cluster, endpoints string) bool {
	if _, leaves := s.leaving[cluster]; !leaves {
		return false
	}
	rec := s.subs[clusterKind].records[cluster]
	return rec.sent != nil && rec.sent.endpointsName() == endpoints
}

// mayBeUsed tells whether the proxy may hold a route that names the cluster. One that
// comes back asks for its routes last, and until then nothing is known of them.
func (s *session) mayBeUsed(cluster string) bool {
	if rec := s.subs[clusterKind].records[cluster]; !s.subs[routeKind].started && rec != nil && rec.sent != nil && !rec.sent.known() {
		return true
	}
	for _, rec := range s.subs[routeKind].records {
		if rec.mayUse(cluster) {
			return true
		}
	}
	return false
}

// releaseDue lets the clusters go whose grace has passed.
func (s *session) releaseDue(now time.Time) {
	for name, d := range s.leaving {
		if !d.over && !d.due.IsZero() && !now.Before(d.due) {
			s.leaving[name] = departure{due: d.due, over: true}
			s.subs[clusterKind].mark(name)
		}
	}
}

// scheduleLeaving starts the grace of clusters that no route can name any more,
// and stops it for those that one names again.
func (s *session) scheduleLeaving(now time.Time) {
	for name, d := range s.leaving {
		switch used := s.mayBeUsed(name); {
		case used:
			s.leaving[name] = departure{}
		case d.due.IsZero():
			s.leaving[name] = departure{due: now.Add(s.grace)}
		}
	}
}

// forgetEndpoints takes the ACK of the endpoints back with that of their cluster,
// which goes in the response of the given number: should the cluster return, it
// has to be warm anew before a route may name it.
func (s *session) forgetEndpoints(cluster *record, number uint64) {
	if cluster.sent == nil {
		return
	}
	name := cluster.sent.endpointsName()
	delete(s.warming, name)
	sub := &s.subs[endpointKind]
	if rec := sub.records[name]; rec != nil {
		rec.base, rec.since = nil, number
		rec.force = s.world.resources[endpointKind][name] != nil
		sub.mark(name)
	}
}
