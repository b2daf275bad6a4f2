package session

import "slices"

// wildcardName subscribes to all resources of a kind.
const wildcardName = "*"

// updateSubscription applies a request to the subscription. isRepeated is true if the proxy repeats a request that was
// answered before. It returns the number of names that exceed the limits.
func (s *Session) updateSubscription(k Kind, r Request, isRepeated bool) (refused int) {
	sub := &s.subs[k]
	isFirst := !sub.started
	sub.started = true
	if s.mode == ModeStateOfTheWorld {
		r.Subscribe, r.Unsubscribe = sub.difference(r.Names)
	}
	isChanged := len(r.Unsubscribe) > 0
	if isFirst {
		sub.hasInitial, sub.hasAccepted = len(r.InitialVersions) > 0, r.Version != ""
		s.reconnected = s.reconnected || sub.hasInitial || sub.hasAccepted
	}
	if isFirst && sub.wildcard && len(r.Subscribe) == 0 {
		r.Subscribe = []string{wildcardName}
	}
	for _, name := range r.Subscribe {
		if s.subscribe(k, name, r.InitialVersions) {
			isChanged = true
		} else {
			refused++ // In state of the world each request repeats the name, and it is no change.
		}
	}
	for _, name := range r.Unsubscribe {
		s.unsubscribe(k, name)
	}
	for name, version := range r.InitialVersions {
		if !s.importVersion(k, name, version) {
			refused++
		}
	}
	if isRepeated && !isChanged {
		s.resendAll(k)
	}
	// Removing a name from the subscription changes the complete list too.
	sub.mustReply = sub.mustReply || s.sendsLists(k) && (isFirst || isChanged)
	if isFirst {
		refused += s.onConnect(k, r)
	}
	return refused
}

// resendAll sends all resources of a kind again: Envoy repeats a request when it warms a cluster whose endpoints it
// already has.
func (s *Session) resendAll(k Kind) {
	sub := &s.subs[k]
	for name := range sub.names {
		s.ensureRecord(k, name).resend = true
		sub.dirty.add(name)
	}
}

// difference returns which names a request in state of the world, which contains the whole subscription, adds and
// removes.
func (sub *subscription) difference(names []string) (added, removed []string) {
	sub.usesNames = sub.usesNames || len(names) > 0
	if !sub.usesNames {
		return nil, nil
	}
	want := make(map[string]struct{}, len(names))
	for _, name := range names {
		want[name] = struct{}{}
		if _, hasName := sub.names[name]; !hasName && (name != wildcardName || !sub.subscribedToAll) {
			added = append(added, name)
		}
	}
	for name := range sub.names {
		if _, isWanted := want[name]; !isWanted {
			removed = append(removed, name)
		}
	}
	if _, isWanted := want[wildcardName]; sub.subscribedToAll && !isWanted {
		removed = append(removed, wildcardName)
	}
	return added, removed
}

// subscribe adds one name. A name that is already subscribed is sent again: the client may have dropped the resource.
// initial are the versions that the proxy reported. subscribe returns false for a name that exceeds the limits.
func (s *Session) subscribe(k Kind, name string, initial map[string]string) bool {
	sub := &s.subs[k]
	if name == wildcardName && sub.wildcard {
		s.subscribeAll(k, initial)
		return true
	}
	isCharged, hasName := sub.names[name]
	if !hasName {
		if len(name) > MaxNameLength || len(sub.names) >= NamesLimit || s.nameBytes+len(name) > nameBytesLimit {
			return false
		}
		if isCharged = s.desired(k, name) == nil; isCharged && !s.charge(name) {
			return false
		}
		s.nameBytes += len(name)
	}
	if k == SecretKind {
		s.addServerName(name)
	}
	desired := s.desired(k, name)
	if desired != nil {
		name = desired.name // All streams share one string.
	}
	isNew := !sub.wants(name)
	sub.names[name] = isCharged
	switch {
	case isNew && s.isSyncedBy(k, desired, initial):
		sub.markChanged(name)
		return true
	case isNew:
		sub.records[name] = &record{createdAfter: s.lastNumber}
	}
	s.ensureRecord(k, name).resend = true
	sub.dirty.add(name)
	return true
}

// desired returns the desired resource of a name, nil for none.
func (s *Session) desired(k Kind, name string) *Resource {
	isWithheld := k == ListenerKind && slices.Contains(s.withheldListeners, name)
	if isWithheld || k == SecretKind && (s.withholdsSecrets || s.serverNames.isEvicted(name)) {
		return nil
	}
	res := s.snapshot.lookup(k, name)
	if res != nil && res.onDemand && s.mode == ModeStateOfTheWorld {
		return nil // State of the world cannot express that a certificate does not exist.
	}
	return res
}

// isSyncedBy reports whether a resource is synced because the proxy reported the desired version.
func (s *Session) isSyncedBy(k Kind, desired *Resource, initial map[string]string) bool {
	return desired != nil && parseVersion(initial[desired.name]) == desired.forTopology(s.topology).sentVersion() &&
		(k != EndpointKind || !s.lookup(ClusterKind, desired.name).warming)
}

// subscribeAll makes the subscription a wildcard. initial are the versions that the proxy reported.
func (s *Session) subscribeAll(k Kind, initial map[string]string) {
	sub := &s.subs[k]
	if sub.subscribedToAll {
		return
	}
	var missing []string
	for name, res := range s.snapshot.resources[k].all() {
		switch {
		case sub.wants(name):
		case s.isSyncedBy(k, res, initial):
			sub.markChanged(name)
		default:
			sub.records[name] = &record{createdAfter: s.lastNumber}
			missing = append(missing, name)
		}
	}
	sub.subscribedToAll, sub.mustReply = true, true
	slices.Sort(missing)
	for _, name := range missing {
		sub.dirty.add(name)
	}
}

// unsubscribe removes one name or the wildcard. It ignores a name that is not subscribed.
func (s *Session) unsubscribe(k Kind, name string) {
	sub := &s.subs[k]
	if name == wildcardName && sub.subscribedToAll {
		sub.subscribedToAll = false
		for other := range sub.records {
			if !sub.wants(other) {
				s.dropRecord(k, other)
			}
		}
		return
	}
	isCharged, hasName := sub.names[name]
	if !hasName {
		return
	}
	delete(sub.names, name)
	s.nameBytes -= len(name)
	if isCharged {
		s.discharge(name)
	}
	if sub.subscribedToAll {
		// The client does not know whether the wildcard includes the name, so the protocol requires a response.
		s.ensureRecord(k, name).resend = true
		sub.dirty.add(name)
		return
	}
	s.dropRecord(k, name)
}

// dropRecord deletes the record of a resource that is no longer subscribed.
func (s *Session) dropRecord(k Kind, name string) {
	sub := &s.subs[k]
	sub.markChanged(name)
	if rec := sub.records[name]; rec != nil {
		s.setMaybeActive(rec, nil)
	}
	delete(sub.records, name)
	sub.dirty.remove(name)
	sub.retries.remove(name)
	switch k {
	case ClusterKind:
		delete(s.pendingRemoval, name)
	case SecretKind:
		s.serverNames.remove(name)
	default:
	}
}

// importVersion records a version that a reconnecting proxy reported. It counts as sent and ACKed, so only differences
// from the snapshot are sent. importVersion returns false for a name that exceeds the limits.
func (s *Session) importVersion(k Kind, name, reported string) bool {
	sub := &s.subs[k]
	if !sub.wants(name) || s.isSynced(k, name) {
		return true
	}
	if len(name) > MaxNameLength || len(reported) > MaxNameLength || len(sub.records) >= NamesLimit {
		return false
	}
	if s.snapshot.lookup(k, name) == nil && !s.charge(name) {
		return false
	}
	sub.markChanged(name)
	rec := s.ensureRecord(k, name)
	r := &Resource{name: name, version: parseVersion(reported)}
	rec.sent, rec.lastAcked = r, r
	if k == ScopeKind {
		s.setMaybeActive(rec, []activeVersion{{r, 0}})
	}
	rec.resend = k == EndpointKind && s.lookup(ClusterKind, name).warming
	sub.dirty.add(name)
	return true
}
