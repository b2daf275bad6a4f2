package session

import "slices"

// handleAnswer processes the ACK or NACK in a request and returns it, nil for none. A nonce that names no pending
// response is stale and ignored.
func (s *Session) handleAnswer(k Kind, r Request) *Answer {
	sub := &s.subs[k]
	i := slices.IndexFunc(sub.pending, func(p Response) bool { return p.Nonce == r.Nonce })
	if i < 0 {
		return nil
	}
	answered, first := sub.pending[i], i
	if s.mode == ModeStateOfTheWorld {
		first = 0
		s.ackEarlier(k, sub.pending[:i])
	}
	sub.pending = slices.Delete(sub.pending, first, i+1)
	answer := &Answer{Kind: k, Accepted: !r.Rejected, Message: r.Message}
	if r.Rejected {
		answer.Names = s.handleNACK(k, answered, r.Message)
	} else {
		s.handleACK(k, answered)
	}
	return answer
}

// ackEarlier processes the responses before the answered one. In state of the world a client may answer only the last
// of several. A list is replaced by the later list. Responses of other kinds are independent, and the client would
// have sent a NACK for a bad one.
func (s *Session) ackEarlier(k Kind, pending []Response) {
	if s.sendsLists(k) {
		return
	}
	for _, p := range pending {
		s.handleACK(k, p)
	}
}

// handleACK processes the ACK of a response.
func (s *Session) handleACK(k Kind, p Response) {
	sub := &s.subs[k]
	for _, res := range p.Resources {
		rec := sub.records[res.name]
		if rec == nil || s.sendsLists(k) && rec.isSynced() && rec.sent.equals(res) {
			continue // It was in the list before and did not change.
		}
		sub.markChanged(res.name)
		if rec.ack(res, p.number) && k == ScopeKind {
			s.setMaybeActive(rec, append([]activeVersion{{res, p.number}}, rec.activeAfter(p.number)...))
		}
	}
	if k != ScopeKind {
		return
	}
	s.scopesUnknown = false
	for _, name := range p.Removed {
		rec := sub.records[name]
		if rec == nil {
			continue
		}
		sub.markChanged(name)
		s.setMaybeActive(rec, rec.activeAfter(p.number))
		_, hasName := sub.names[name]
		isRemoved := rec.sent == nil && len(rec.maybeActive) == 0
		if isRemoved && !hasName && s.desired(k, name) == nil {
			delete(sub.records, name)
		}
	}
}

// handleNACK processes the NACK of a response. Envoy may have dropped good resources along with the bad one, so no
// resource of the response counts as ACKed. Each is sent again alone until the bad one was rejected alone.
// handleNACK returns the names of the suspects.
func (s *Session) handleNACK(k Kind, p Response, message string) []string {
	sub := &s.subs[k]
	suspects := s.suspects(k, p)
	for _, res := range suspects {
		if rec := sub.records[res.name]; rec != nil {
			sub.markChanged(res.name)
			s.nackResource(k, rec, res, p.number, message, len(suspects) == 1)
		}
	}
	s.repeatRemovals(k, p)
	// The proxy must ACK the list without the bad resource.
	sub.mustReply = sub.mustReply || s.sendsLists(k) && len(suspects) > 0
	sub.mustDrain = s.sendsLists(k) // Later pending lists may contain it too.
	return namesOf(suspects)
}

// suspects returns the resources that may be the reason of a NACK: the one that was sent alone, or those of a list that
// were not ACKed before. A resource that is no longer subscribed can still be the reason.
func (s *Session) suspects(k Kind, p Response) []*Resource {
	return slices.DeleteFunc(slices.Clone(p.Resources), func(res *Resource) bool {
		if p.alone != "" {
			return res.name != p.alone
		}
		rec := s.subs[k].records[res.name]
		return s.sendsLists(k) && rec != nil && rec.lastAcked.equals(res)
	})
}

// nackResource processes the NACK of one suspect.
func (s *Session) nackResource(k Kind, rec *record, res *Resource, number uint64, message string, alone bool) {
	s.subs[k].dirty.add(res.name)
	if !rec.nack(res, number, message, alone) {
		return
	}
	if alone {
		s.fleetRejections.add(k, res.name, res.version)
		s.setMaybeActive(rec, rec.activeWithout(func(v activeVersion) bool { return v.number == number }))
	}
	if !s.sendsLists(k) {
		return
	}
	// The next list contains the last good version instead. If only the proxy has its content, it is lost.
	if rec.lastAcked != nil && !rec.lastAcked.hasContent() {
		s.revokeEndpoints(rec, s.lastNumber)
		rec.sent, rec.lastAcked, rec.warm = nil, nil, false
	}
	if k == ClusterKind && rec.lastAcked != nil {
		s.startWarming(rec, rec.lastAcked)
	}
}

// repeatRemovals sends the removals of a rejected response again: whether the proxy applied them is unknown.
func (s *Session) repeatRemovals(k Kind, p Response) {
	sub := &s.subs[k]
	if s.sendsLists(k) || len(p.Resources) == 0 {
		return // The next list omits them too; a response with removals only would be rejected again.
	}
	for _, name := range p.Removed {
		if s.desired(k, name) != nil || !sub.wants(name) {
			continue
		}
		if rec := s.ensureRecord(k, name); rec.sent == nil {
			rec.resend = true
			sub.dirty.add(name)
		}
	}
}
