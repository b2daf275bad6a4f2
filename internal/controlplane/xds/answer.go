package xds

import "slices"

// settle takes the answer out of a request, nil for none. A nonce that names no pending response is
// stale and means nothing.
func (s *session) settle(k kind, r request) *verdict {
	sub := &s.subs[k]
	i := slices.IndexFunc(sub.pending, func(p response) bool { return p.nonce == r.nonce })
	if i < 0 {
		return nil
	}
	answered, first := sub.pending[i], i
	if s.mode == ModeStateOfTheWorld {
		first = 0
		s.settleEarlier(k, sub.pending[:i])
	}
	sub.pending = slices.Delete(sub.pending, first, i+1)
	v := &verdict{kind: k, accepted: !r.refused, message: r.message}
	if r.refused {
		v.names = s.refuse(k, answered, r.message)
	} else {
		s.accept(k, answered)
	}
	return v
}

// settleEarlier closes the responses before the one that is answered. In state of the world a
// client may answer the last of several only. A list of all resources is replaced by the later one;
// of the other kinds each response stands for itself, and a refusal would have been said.
func (s *session) settleEarlier(k kind, pending []response) {
	if s.lists(k) {
		return
	}
	for _, p := range pending {
		s.accept(k, p)
	}
}

// accept takes an ACK.
func (s *session) accept(k kind, p response) {
	sub := &s.subs[k]
	for _, res := range p.resources {
		rec := sub.records[res.name]
		if rec == nil || s.lists(k) && rec.inSync() && rec.sent.is(res) {
			continue // What stood in the list as before is no news.
		}
		sub.note(res.name)
		if rec.accept(res, p.number) && k == scopeKind {
			s.setMaybeActive(rec, append([]activeVersion{{res, p.number}}, rec.laterThan(p.number)...))
		}
	}
	if k != scopeKind {
		return
	}
	s.unlisted = false
	for _, name := range p.removed {
		rec := sub.records[name]
		if rec == nil {
			continue
		}
		sub.note(name)
		s.setMaybeActive(rec, rec.laterThan(p.number))
		_, named := sub.names[name]
		isGone := rec.sent == nil && len(rec.maybeActive) == 0
		if isGone && !named && s.desired(k, name) == nil {
			delete(sub.records, name)
		}
	}
}

// refuse takes a NACK. Envoy may have dropped good resources beside the bad one, so none of the
// response counts as ACKed any more, and each goes out again alone until the culprit was refused
// alone. It returns the names of the suspects.
func (s *session) refuse(k kind, p response, message string) []string {
	sub := &s.subs[k]
	suspects := s.suspects(k, p)
	for _, res := range suspects {
		if rec := sub.records[res.name]; rec != nil {
			sub.note(res.name)
			s.refuseOne(k, rec, res, p.number, message, len(suspects) == 1)
		}
	}
	s.removeAgain(k, p)
	// The proxy has to confirm the list without the culprit.
	sub.mustReply = sub.mustReply || s.lists(k) && len(suspects) > 0
	sub.mustDrain = s.lists(k) // Later lists may have it too.
	return namesOf(suspects)
}

// suspects returns the resources for which a response may have been refused: the one that was sent
// alone, of a list those that differ from what was ACKed. One that isn't wanted any more can still have
// been the reason.
func (s *session) suspects(k kind, p response) []*resource {
	return slices.DeleteFunc(slices.Clone(p.resources), func(res *resource) bool {
		if p.alone != "" {
			return res.name != p.alone
		}
		rec := s.subs[k].records[res.name]
		return s.lists(k) && rec != nil && rec.lastAcked.is(res)
	})
}

// refuseOne is refuse for one of the suspects.
func (s *session) refuseOne(
	k kind, rec *record, res *resource, number uint64, message string, alone bool,
) {
	sub := &s.subs[k]
	sub.dirty.add(res.name)
	if !rec.refuse(res, number, message, alone) {
		return
	}
	if alone {
		s.elsewhere.note(k, res.name, res.version)
		s.setMaybeActive(rec, rec.without(func(v activeVersion) bool { return v.in == number }))
	}
	if !s.lists(k) {
		return
	}
	// The next list has in its place what was good before. If only the proxy knows that, it is lost.
	if rec.lastAcked != nil && !rec.lastAcked.known() {
		s.forgetEndpoints(rec, s.sent)
		rec.sent, rec.lastAcked, rec.warm = nil, nil, false
	}
	if k == clusterKind && rec.lastAcked != nil {
		s.rewarm(rec, rec.lastAcked)
	}
}

// removeAgain has the removals of a refused response repeated: whether they were carried out isn't
// known.
func (s *session) removeAgain(k kind, p response) {
	sub := &s.subs[k]
	if s.lists(k) || len(p.resources) == 0 {
		return // The next list has them no more either; what has removals only would be refused again.
	}
	for _, name := range p.removed {
		if s.desired(k, name) != nil || !sub.wants(name) {
			continue
		}
		if rec := s.record(k, name); rec.sent == nil {
			rec.force = true
			sub.dirty.add(name)
		}
	}
}
