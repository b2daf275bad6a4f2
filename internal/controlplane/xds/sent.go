package xds

import (
	"slices"
	"time"
)

// noteSent keeps the books of a resource that goes out.
func (s *session) noteSent(k kind, res *resource, number uint64) {
	rec := s.subs[k].records[res.name]
	before := rec.sent
	rec.sent, rec.sentIn, rec.force = res, number, false
	switch k {
	case clusterKind:
		if !before.is(res) || rec.doubtful {
			s.rewarm(rec, res)
		}
	case endpointKind:
		rec.drainsUntil = time.Time{}
		if cluster := s.subs[clusterKind].records[res.name]; cluster != nil {
			cluster.warming = false
		}
	case scopeKind:
		s.setMaybeActive(rec, append(slices.Clip(rec.maybeActive), activeVersion{res, number}))
	default:
	}
}

// rewarm has the endpoints of a cluster sent behind it, which waits for them. If the proxy hasn't
// subscribed to them yet, it will and then gets them anyway.
func (s *session) rewarm(rec *record, cluster *resource) {
	rec.warming = cluster.byEDS
	if endpoints := s.find(endpointKind, cluster.name); endpoints != nil && cluster.byEDS {
		endpoints.force = true
		s.subs[endpointKind].dirty.add(cluster.name)
	}
}

// noteRemoved keeps the books of a resource whose removal goes out.
func (s *session) noteRemoved(k kind, name string, number uint64) {
	sub := &s.subs[k]
	rec := sub.records[name]
	switch k {
	case scopeKind:
		// The proxy may use it until it ACKs the removal.
		*rec = record{since: number, maybeActive: rec.maybeActive, refusals: rec.refusals}
		return
	case clusterKind:
		delete(s.pendingRemoval, name)
		s.forgetEndpoints(rec, number)
	default:
	}
	if _, named := sub.names[name]; named {
		*rec = record{since: number}
		return
	}
	delete(sub.records, name)
}

// setMaybeActive sets the versions of a scope that the proxy may be using, and counts the clusters
// that they name.
func (s *session) setMaybeActive(rec *record, versions []activeVersion) {
	s.countUses(rec.maybeActive, -1)
	s.countUses(versions, 1)
	rec.maybeActive = versions
}

// countUses adds to the counts of the clusters that versions name.
func (s *session) countUses(versions []activeVersion, by int) {
	for _, v := range versions {
		if !v.resource.known() {
			s.unknownUses += by
		}
		for _, cluster := range v.resource.clusters {
			if s.uses[cluster] += by; s.uses[cluster] == 0 {
				delete(s.uses, cluster)
			}
		}
	}
}

// mayBeUsed tells whether the proxy may hold a route that names the cluster. One that comes back
// asks for its routes last, and until then nothing is known of them. Settled scopes name clusters that
// are desired, and no other.
func (s *session) mayBeUsed(cluster string) bool {
	rec := s.subs[clusterKind].records[cluster]
	if !s.subs[scopeKind].started && rec != nil && rec.sent != nil && !rec.sent.known() {
		return true
	}
	isDesired := s.mode == ModeDelta && s.snapshot.resources[clusterKind].get(cluster) != nil
	return isDesired || s.unlisted || s.unknownUses > 0 || s.uses[cluster] > 0
}
