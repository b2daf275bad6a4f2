package session

import (
	"slices"
	"time"
)

// recordSent records that a resource is sent.
func (s *Session) recordSent(k Kind, res *Resource, number uint64) {
	rec := s.subs[k].records[res.name]
	before := rec.sent
	rec.sent, rec.sentNumber, rec.resend = res, number, false
	switch k {
	case ClusterKind:
		if !before.equals(res) || rec.uncertain {
			s.startWarming(rec, res)
		}
	case EndpointKind:
		rec.withheldSince = time.Time{}
		if cluster := s.subs[ClusterKind].records[res.name]; cluster != nil {
			cluster.warming = false
		}
	case ScopeKind:
		s.setMaybeActive(rec, append(slices.Clip(rec.maybeActive), activeVersion{res, number}))
	default:
	}
}

// startWarming requests the endpoints of a cluster to be sent after it, because Envoy waits for them. If the proxy has
// not subscribed to them yet, it will, and receives them then.
func (s *Session) startWarming(rec *record, cluster *Resource) {
	rec.warming = cluster.usesEDS
	if endpoints := s.recordOf(EndpointKind, cluster.name); endpoints != nil && cluster.usesEDS {
		endpoints.resend = true
		s.subs[EndpointKind].dirty.add(cluster.name)
	}
}

// recordRemoved records that the removal of a resource is sent.
func (s *Session) recordRemoved(k Kind, name string, number uint64) {
	sub := &s.subs[k]
	rec := sub.records[name]
	switch k {
	case ScopeKind:
		// The proxy may use it until it ACKs the removal.
		*rec = record{createdAfter: number, maybeActive: rec.maybeActive, nacksWithOthers: rec.nacksWithOthers}
		return
	case ClusterKind:
		delete(s.pendingRemoval, name)
		s.revokeEndpoints(rec, number)
	default:
	}
	if _, hasName := sub.names[name]; hasName {
		*rec = record{createdAfter: number}
		return
	}
	delete(sub.records, name)
}

// setMaybeActive sets the versions of a scope that the proxy may be using, and counts the clusters that they name.
func (s *Session) setMaybeActive(rec *record, versions []activeVersion) {
	s.countUses(rec.maybeActive, -1)
	s.countUses(versions, 1)
	rec.maybeActive = versions
}

// countUses adds delta to the counts of the clusters that versions name.
func (s *Session) countUses(versions []activeVersion, delta int) {
	for _, v := range versions {
		if !v.resource.hasContent() {
			s.unknownUses += delta
		}
		for _, cluster := range v.resource.clusters {
			if s.uses[cluster] += delta; s.uses[cluster] == 0 {
				delete(s.uses, cluster)
			}
		}
	}
}

// mayBeUsed reports whether the proxy may use a scope that names the cluster. A reconnecting proxy subscribes to scopes
// last, and until then they are unknown. Synced scopes name desired clusters only.
func (s *Session) mayBeUsed(cluster string) bool {
	rec := s.subs[ClusterKind].records[cluster]
	if !s.subs[ScopeKind].started && rec != nil && rec.sent != nil && !rec.sent.hasContent() {
		return true
	}
	isDesired := s.mode == ModeDelta && s.snapshot.resources[ClusterKind].get(cluster) != nil
	return isDesired || s.scopesUnknown || s.unknownUses > 0 || s.uses[cluster] > 0
}
