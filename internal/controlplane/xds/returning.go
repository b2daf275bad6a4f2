package xds

// In state of the world a proxy that reconnects doesn't say which clusters it
// has, and a list of clusters that lacks one removes it, even if routes still
// name it. Its subscription to endpoints tells: Envoy asks for those of all its
// clusters. So the first list waits for the first requests of the other kinds,
// and if a cluster of the proxy left the world meanwhile, for the routes that no
// longer name it, and for the grace. That works when the routes need nothing new;
// when they do, the list has to go first after all.

// welcome notes what the first request of a kind tells about a proxy that comes
// back in state of the world. The version is that of the last response that it
// accepted; a fresh proxy has none.
func (s *session) welcome(k kind, r request) error {
	if r.version == "" || s.mode != ModeStateOfTheWorld {
		return nil
	}
	s.returned, s.subs[k].accepted = true, true
	switch k {
	case clusterKind:
		s.returning = s.subs[clusterKind].subscribed
	case endpointKind:
		if !s.returning {
			return nil
		}
		for _, name := range r.names {
			if err := s.assume(clusterKind, name, ""); err != nil {
				return err
			}
		}
	case scopeKind:
		s.unlisted = true
	default:
	}
	return nil
}

// holdsList tells whether the list of clusters is held back for now.
func (s *session) holdsList() bool {
	if !s.returning {
		return false
	}
	if s.returnBy.IsZero() {
		s.returnBy = s.now.Add(drainingPatience)
	}
	if s.mustReturn() {
		return true
	}
	s.returning = false
	// Nothing is known of the content of what is left of them.
	for name, rec := range s.subs[clusterKind].records {
		if s.isGone(name, rec) {
			s.drop(clusterKind, name)
		}
	}
	return false
}

// mustReturn tells whether a proxy that came back needs its routes first.
func (s *session) mustReturn() bool {
	patient := s.now.Before(s.returnBy)
	if !s.subs[scopeKind].started {
		// Envoy asks for routes last.
		if patient {
			s.alarm = earlier(s.alarm, s.returnBy)
		}
		return patient
	}
	gone, named := false, false
	for name, rec := range s.subs[clusterKind].records {
		if s.isGone(name, rec) && s.lingers(clusterKind, name) {
			gone = true
			named = named || s.mayBeUsed(name)
		}
	}
	if !named {
		return gone
	}
	if !patient || !s.canRoute() {
		return false
	}
	s.alarm = earlier(s.alarm, s.returnBy)
	return true
}

// isGone tells whether a cluster is one that the proxy brought along and that
// isn't desired.
func (s *session) isGone(name string, rec *record) bool {
	return rec.sent != nil && !rec.sent.known() && s.snapshot.resources[clusterKind].get(name) == nil
}

// canRoute tells whether the proxy has all clusters that its routes need.
func (s *session) canRoute() bool {
	for _, scope := range s.snapshot.resources[scopeKind].all() {
		for _, cluster := range scope.clusters {
			if rec := s.subs[clusterKind].records[cluster]; rec == nil || rec.sent == nil {
				return false
			}
		}
	}
	return true
}
