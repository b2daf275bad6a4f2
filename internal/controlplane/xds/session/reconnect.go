package session

// In state of the world a reconnecting proxy does not report its clusters. A list that omits a cluster removes it, even
// if scopes still name it. The proxy's subscription to endpoints names its clusters, because Envoy subscribes to the
// endpoints of all of them. So the first list of clusters waits for the first requests of the other kinds. If a cluster
// of the proxy was removed meanwhile, the list also waits for the scopes that no longer name it, and for the grace
// period. That works if the scopes need no new cluster. If they do, the list must be sent first after all.

// onConnect evaluates the first request of a kind from a proxy that reconnects in state of the world. Its version is
// that of the last response that the proxy accepted; a new proxy has none. onConnect returns the number of names that
// exceed the limits.
func (s *Session) onConnect(k Kind, r Request) (refused int) {
	if r.Version == "" || s.mode != ModeStateOfTheWorld {
		return 0
	}
	s.reconnected, s.subs[k].hasAccepted = true, true
	switch k {
	case ClusterKind:
		s.withholdsList = s.subs[ClusterKind].subscribedToAll
	case EndpointKind:
		if !s.withholdsList {
			return 0
		}
		for _, name := range r.Names {
			if !s.importVersion(ClusterKind, name, "") {
				refused++
			}
		}
	case ScopeKind:
		s.scopesUnknown = true
	default:
	}
	return refused
}

// withholdClusters reports whether the first list of clusters is withheld for now.
func (s *Session) withholdClusters() bool {
	if !s.withholdsList {
		return false
	}
	if s.withholdUntil.IsZero() {
		s.withholdUntil = s.now.Add(scopesTimeout)
	}
	if s.needsScopesFirst() {
		return true
	}
	s.withholdsList = false
	// The content of the remaining clusters is unknown.
	for name, rec := range s.subs[ClusterKind].records {
		if s.isStale(name, rec) {
			s.dropRecord(ClusterKind, name)
		}
	}
	return false
}

// needsScopesFirst reports whether a reconnected proxy must receive its scopes before the list of clusters.
func (s *Session) needsScopesFirst() bool {
	mayWait := s.now.Before(s.withholdUntil)
	if !s.subs[ScopeKind].started {
		// Envoy subscribes to scopes last.
		if mayWait {
			s.deadline = earlier(s.deadline, s.withholdUntil)
		}
		return mayWait
	}
	hasStale, isStaleUsed := false, false
	for name, rec := range s.subs[ClusterKind].records {
		if s.isStale(name, rec) && s.isDraining(ClusterKind, name) {
			hasStale = true
			isStaleUsed = isStaleUsed || s.mayBeUsed(name)
		}
	}
	if !isStaleUsed {
		return hasStale
	}
	if !mayWait || !s.hasClustersOfScopes() {
		return false
	}
	s.deadline = earlier(s.deadline, s.withholdUntil)
	return true
}

// isStale reports whether a cluster is one that the proxy reported and that is not desired.
func (s *Session) isStale(name string, rec *record) bool {
	return rec.sent != nil && !rec.sent.hasContent() && s.snapshot.resources[ClusterKind].get(name) == nil
}

// hasClustersOfScopes reports whether the proxy has all clusters that the desired scopes name.
func (s *Session) hasClustersOfScopes() bool {
	for _, scope := range s.snapshot.resources[ScopeKind].all() {
		for _, cluster := range scope.clusters {
			if rec := s.subs[ClusterKind].records[cluster]; rec == nil || rec.sent == nil {
				return false
			}
		}
	}
	return true
}
