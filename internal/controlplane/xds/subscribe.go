package xds

import "slices"

// wildcardName subscribes to all resources of a kind.
const wildcardName = "*"

// resubscribe applies what a request says of the subscription. again is true when the proxy repeats a
// request that was answered before.
func (s *session) resubscribe(k kind, r request, again bool) error {
	sub := &s.subs[k]
	first := !sub.started
	sub.started = true
	if s.mode == ModeStateOfTheWorld {
		r.subscribe, r.unsubscribe = sub.difference(r.names)
	}
	changed := len(r.subscribe)+len(r.unsubscribe) > 0
	if first {
		sub.brought, sub.accepted = len(r.initial) > 0, r.version != ""
		s.returned = s.returned || sub.brought || sub.accepted
	}
	if first && sub.wildcard && len(r.subscribe) == 0 {
		r.subscribe = []string{wildcardName}
	}
	for _, name := range r.subscribe {
		if err := s.subscribe(k, name, r.initial); err != nil {
			return err
		}
	}
	for _, name := range r.unsubscribe {
		s.unsubscribe(k, name)
	}
	for name, version := range r.initial {
		if err := s.assume(k, name, version); err != nil {
			return err
		}
	}
	if again && !changed {
		// Envoy does this when it warms a cluster whose endpoints it knows.
		for name := range sub.names {
			s.record(k, name).force = true
			sub.dirty.add(name)
		}
	}
	// A list that got shorter is a change of the complete response too.
	sub.mustReply = sub.mustReply || s.lists(k) && (first || changed)
	if first {
		return s.welcome(k, r)
	}
	return nil
}

// difference is what a request in state of the world, which lists the whole subscription, adds to it and
// takes back from it.
func (sub *subscription) difference(names []string) (added, gone []string) {
	sub.named = sub.named || len(names) > 0
	if !sub.named {
		return nil, nil
	}
	want := make(map[string]struct{}, len(names))
	for _, name := range names {
		want[name] = struct{}{}
		if _, had := sub.names[name]; !had && (name != wildcardName || !sub.subscribed) {
			added = append(added, name)
		}
	}
	for name := range sub.names {
		if _, kept := want[name]; !kept {
			gone = append(gone, name)
		}
	}
	if _, kept := want[wildcardName]; sub.subscribed && !kept {
		gone = append(gone, wildcardName)
	}
	return added, gone
}

// subscribe adds one name. A name that is subscribed to already is answered once
// more: the client may have forgotten the resource. initial are the versions that the proxy brings.
func (s *session) subscribe(k kind, name string, initial map[string]string) error {
	sub := &s.subs[k]
	if name == wildcardName && sub.wildcard {
		s.subscribeAll(k, initial)
		return nil
	}
	_, had := sub.names[name]
	if !had {
		s.nameBytes += len(name)
	}
	if len(name) > nameLimit || len(sub.names) >= namesLimit || s.nameBytes > nameBytesLimit {
		return errTooMuch
	}
	if k == secretKind {
		s.guess(name)
	}
	desired := s.desired(k, name)
	if desired != nil {
		name = desired.name // One text for all streams.
	}
	isNew := !sub.wants(name)
	sub.names[name] = struct{}{}
	switch {
	case isNew && s.settlesWith(k, desired, initial):
		sub.note(name)
		return nil
	case isNew:
		sub.records[name] = &record{since: s.sent}
	}
	s.record(k, name).force = true
	sub.dirty.add(name)
	return nil
}

// desired is what is desired of a name, nil for nothing.
func (s *session) desired(k kind, name string) *resource {
	isLeft := k == listenerKind && slices.Contains(s.left, name)
	if isLeft || k == secretKind && s.guesses.isRefused(name) {
		return nil
	}
	found := s.snapshot.find(k, name)
	if found != nil && found.onDemand && s.mode == ModeStateOfTheWorld {
		return nil // That form has no way to say that there is no certificate.
	}
	return found
}

// settlesWith tells whether a resource is settled by the version that the proxy brings of it.
func (s *session) settlesWith(k kind, desired *resource, initial map[string]string) bool {
	return desired != nil && versionOf(initial[desired.name]) == desired.version &&
		(k != endpointKind || !s.look(clusterKind, desired.name).warming)
}

// subscribeAll makes the subscription a wildcard. initial are the versions that the proxy brings.
func (s *session) subscribeAll(k kind, initial map[string]string) {
	sub := &s.subs[k]
	if sub.subscribed {
		return
	}
	var unsettled []string
	for name, res := range s.snapshot.resources[k].all() {
		switch {
		case sub.wants(name):
		case s.settlesWith(k, res, initial):
			sub.note(name)
		default:
			sub.records[name] = &record{since: s.sent}
			unsettled = append(unsettled, name)
		}
	}
	sub.subscribed, sub.mustReply = true, true
	slices.Sort(unsettled)
	for _, name := range unsettled {
		sub.dirty.add(name)
	}
}

// unsubscribe takes back one name or the wildcard; a name that wasn't subscribed
// to is ignored.
func (s *session) unsubscribe(k kind, name string) {
	sub := &s.subs[k]
	if name == wildcardName && sub.subscribed {
		sub.subscribed = false
		for other := range sub.records {
			if !sub.wants(other) {
				s.drop(k, other)
			}
		}
		return
	}
	if _, had := sub.names[name]; !had {
		return
	}
	delete(sub.names, name)
	s.nameBytes -= len(name)
	if sub.subscribed {
		// The client can't know whether the wildcard still covers the name, so the
		// protocol wants an answer.
		s.record(k, name).force = true
		sub.dirty.add(name)
		return
	}
	s.drop(k, name)
}

// drop ends the record of a resource that the proxy no longer wants.
func (s *session) drop(k kind, name string) {
	sub := &s.subs[k]
	sub.note(name)
	if rec := sub.records[name]; rec != nil {
		s.setMaybeActive(rec, nil)
	}
	delete(sub.records, name)
	sub.dirty.remove(name)
	sub.retries.remove(name)
	switch k {
	case clusterKind:
		delete(s.pendingRemoval, name)
	case secretKind:
		s.guesses.forget(name)
	default:
	}
}

// assume takes over what a reconnecting proxy says it has. It counts as sent and
// ACKed, so only a difference from the world will be sent.
func (s *session) assume(k kind, name, brought string) error {
	sub := &s.subs[k]
	if !sub.wants(name) || s.isSettled(k, name) {
		return nil
	}
	if len(name) > nameLimit || len(brought) > nameLimit || len(sub.records) >= namesLimit {
		return errTooMuch
	}
	sub.note(name)
	rec := s.record(k, name)
	r := &resource{name: name, version: versionOf(brought)}
	rec.sent, rec.lastAcked = r, r
	if k == scopeKind {
		s.setMaybeActive(rec, []activeVersion{{r, 0}})
	}
	rec.force = k == endpointKind && s.look(clusterKind, name).warming
	sub.dirty.add(name)
	return nil
}
