package session

import "maps"

// Most resources of most streams are synced: the proxy has ACKed what is desired, and nothing is pending. A delta
// stream has no record of a subscribed and desired resource exactly if it is synced. In state of the world, where each
// response lists everything, every resource has a record.

// rebuildLimit is how many records a stream deletes at a time before the memory of the map is freed.
const rebuildLimit = 64

// isSynced reports whether a name has no record because the proxy has what is desired.
func (s *Session) isSynced(k Kind, name string) bool {
	sub := &s.subs[k]
	return s.mode == ModeDelta && sub.wants(name) && sub.records[name] == nil && s.desired(k, name) != nil
}

// lookup returns the state of a name, the zero value if the name is not on the stream.
func (s *Session) lookup(k Kind, name string) record {
	if rec := s.subs[k].records[name]; rec != nil {
		return *rec
	}
	if s.isSynced(k, name) {
		want := s.desired(k, name)
		return record{sent: want, lastAcked: want}
	}
	return record{}
}

// recordOf returns the record of a name, and creates that of a synced one. It is nil if the name is not on the stream.
func (s *Session) recordOf(k Kind, name string) *record {
	if !s.isSynced(k, name) {
		return s.subs[k].records[name]
	}
	synced := s.desired(k, name)
	rec := &record{sent: synced, lastAcked: synced, warm: k == ClusterKind && s.hasEndpoints(synced)}
	s.subs[k].records[synced.name] = rec
	if k == ScopeKind {
		s.setMaybeActive(rec, []activeVersion{{synced, 0}})
	}
	return rec
}

// ensureRecord returns the record of a name, and creates it if there is none.
func (s *Session) ensureRecord(k Kind, name string) *record {
	rec := s.recordOf(k, name)
	if rec == nil {
		rec = &record{createdAfter: s.lastNumber}
		s.subs[k].records[name] = rec
	}
	return rec
}

// pruneSynced deletes the records of synced resources, of the kinds without a pending response: an ACK that is still to
// come needs the record.
func (s *Session) pruneSynced() {
	if s.mode != ModeDelta {
		return
	}
	for k := range Kind(KindCount) {
		sub := &s.subs[k]
		if len(sub.pending) > 0 {
			continue
		}
		deleted := 0
		for name, rec := range sub.records {
			if !s.isPrunable(k, name, rec) {
				continue
			}
			if k == ScopeKind {
				s.setMaybeActive(rec, nil)
			}
			delete(sub.records, name)
			deleted++
		}
		if deleted > rebuildLimit { // A map never shrinks.
			sub.records, s.uses = maps.Collect(maps.All(sub.records)), maps.Collect(maps.All(s.uses))
		}
	}
}

// isPrunable reports whether a record contains nothing but that the proxy has what is desired.
func (s *Session) isPrunable(k Kind, name string, rec *record) bool {
	want := s.desired(k, name)
	if want == nil || !s.subs[k].wants(name) || !rec.isSynced() || !rec.sent.equals(want) || !rec.sent.hasContent() ||
		rec.resend || rec.rejection != nil || rec.nacksWithOthers > 0 {
		return false
	}
	switch k {
	case ClusterKind:
		_, isPending := s.pendingRemoval[name]
		return !isPending && !rec.warming && s.hasEndpoints(want)
	case EndpointKind:
		return !s.lookup(ClusterKind, name).warming
	case ScopeKind:
		return len(rec.maybeActive) == 1 && rec.maybeActive[0].resource.equals(want)
	default:
		return true
	}
}
