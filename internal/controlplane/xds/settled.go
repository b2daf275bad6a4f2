package xds

import "maps"

// Most resources of most streams are settled: the proxy has ACKed what is desired, and nothing is under
// way. Of these a stream keeps nothing. What a delta stream asked for and what is in its snapshot has no
// record exactly when it is settled. In state of the world, where each response lists everything, every
// resource has its record.

// sweepLimit is how many records a stream drops at a time before the room that they took is given back.
const sweepLimit = 64

// isSettled tells whether a name has no record because the proxy has what is desired.
func (s *session) isSettled(k kind, name string) bool {
	sub := &s.subs[k]
	return s.mode == ModeDelta && sub.wants(name) && sub.records[name] == nil && s.desired(k, name) != nil
}

// look returns what is known of a name, nothing at all if the stream has nothing to do with it.
func (s *session) look(k kind, name string) record {
	if rec := s.subs[k].records[name]; rec != nil {
		return *rec
	}
	if s.isSettled(k, name) {
		want := s.desired(k, name)
		return record{sent: want, lastAcked: want}
	}
	return record{}
}

// find returns the record of a name, and makes that of a settled one. It is nil when the stream has
// nothing to do with the name.
func (s *session) find(k kind, name string) *record {
	if !s.isSettled(k, name) {
		return s.subs[k].records[name]
	}
	has := s.desired(k, name)
	rec := &record{sent: has, lastAcked: has, warm: k == clusterKind && s.hasEndpoints(has)}
	s.subs[k].records[has.name] = rec
	if k == scopeKind {
		s.setMaybeActive(rec, []activeVersion{{has, 0}})
	}
	return rec
}

// record returns the record of a name and begins it if need be.
func (s *session) record(k kind, name string) *record {
	rec := s.find(k, name)
	if rec == nil {
		rec = &record{since: s.sent}
		s.subs[k].records[name] = rec
	}
	return rec
}

// settleAll drops the records of what is settled, of the kinds of which all is answered: an answer that
// is still to come has to find the record.
func (s *session) settleAll() {
	if s.mode != ModeDelta {
		return
	}
	for k := range kind(kindCount) {
		sub := &s.subs[k]
		if len(sub.pending) > 0 {
			continue
		}
		dropped := 0
		for name, rec := range sub.records {
			if !s.maySettle(k, name, rec) {
				continue
			}
			if k == scopeKind {
				s.setMaybeActive(rec, nil)
			}
			delete(sub.records, name)
			dropped++
		}
		if dropped > sweepLimit { // A map keeps the room of what was in it.
			sub.records, s.uses = maps.Collect(maps.All(sub.records)), maps.Collect(maps.All(s.uses))
		}
	}
}

// maySettle tells whether a record says no more than that the proxy has what is desired.
func (s *session) maySettle(k kind, name string, rec *record) bool {
	want := s.desired(k, name)
	if want == nil || !s.subs[k].wants(name) || !rec.inSync() || !rec.sent.is(want) || !rec.sent.known() ||
		rec.force || rec.rejection != nil || rec.refusals > 0 {
		return false
	}
	switch k {
	case clusterKind:
		_, leaves := s.pendingRemoval[name]
		return !leaves && !rec.warming && s.hasEndpoints(want)
	case endpointKind:
		return !s.look(clusterKind, name).warming
	case scopeKind:
		return len(rec.maybeActive) == 1 && rec.maybeActive[0].resource.is(want)
	default:
		return true
	}
}
