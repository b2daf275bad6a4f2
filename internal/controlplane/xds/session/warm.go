package session

import (
	"slices"
	"time"
)

const (
	// scopesTimeout is how long the list of clusters of a reconnected proxy, and endpoints that queue requests instead of
	// serving them, wait for scopes.
	scopesTimeout = time.Second
	// lastEndpointsTimeout is how long endpoints that neither serve nor queue requests wait for scopes: without others,
	// the proxy responds 503 to requests by the old scopes. A proxy that lacks processor time accepts scopes slowly, and
	// each is sent alone. The Pods may be gone, so the wait has an end.
	lastEndpointsTimeout = 10 * time.Second
	// firstScopesTimeout is how long the first scopes wait for clusters while the proxy accepts none.
	firstScopesTimeout = 5 * time.Second
)

// areClustersWarm reports whether the proxy can serve every cluster that the resource names.
func (s *Session) areClustersWarm(r *Resource) bool {
	return !slices.ContainsFunc(r.clusters, func(name string) bool { return !s.isWarm(name) })
}

// isWarm reports whether the proxy can serve the cluster: it ACKed the cluster and, if it uses EDS, its endpoints.
func (s *Session) isWarm(cluster string) bool {
	rec := s.lookup(ClusterKind, cluster)
	isWarm := rec.warm || rec.lastAcked != nil && s.hasEndpoints(rec.lastAcked)
	if stored := s.subs[ClusterKind].records[cluster]; stored != nil {
		stored.warm = isWarm
	}
	return isWarm
}

// hasEndpoints reports whether the proxy has the endpoints that a cluster needs, in any version.
func (s *Session) hasEndpoints(cluster *Resource) bool {
	return !cluster.needsEndpoints() || s.lookup(EndpointKind, cluster.name).lastAcked != nil
}

// withholdScopes reports whether the first scopes are withheld. They make a new Envoy ready. In state of the world they
// replace all scopes of a reconnected one, and Envoy responds 404 for what is missing. So they wait for clusters that
// are expected to become warm.
func (s *Session) withholdScopes() bool {
	sub := &s.subs[ScopeKind]
	if sub.nonce != "" || sub.hasInitial || !s.hasWaitingScope() {
		return false
	}
	if s.lastProgress.IsZero() {
		s.lastProgress = s.now
	}
	end := s.lastProgress.Add(firstScopesTimeout)
	if !s.now.Before(end) {
		return false
	}
	s.deadline = earlier(s.deadline, end)
	return true
}

// hasWaitingScope reports whether a scope waits for clusters that can become warm.
func (s *Session) hasWaitingScope() bool {
	for _, scope := range s.snapshot.resources[ScopeKind].all() {
		if !s.areClustersWarm(scope) && !s.isBlocked(scope) {
			return true
		}
	}
	return false
}

// isBlocked reports whether the scope needs a cluster that is not warm because the proxy rejected it or its endpoints.
func (s *Session) isBlocked(scope *Resource) bool {
	return slices.ContainsFunc(scope.clusters, func(name string) bool {
		want := s.snapshot.resources[ClusterKind].get(name)
		return want != nil && !s.isWarm(name) &&
			(s.isRejected(ClusterKind, name) || want.usesEDS && s.isRejected(EndpointKind, name))
	})
}

// isRejected reports whether the proxy rejected the desired version of a resource alone.
func (s *Session) isRejected(k Kind, name string) bool {
	rec := s.lookup(k, name)
	return rec.hasRejected(s.desired(k, name))
}

// awaitsScopes reports whether endpoints that serve or queue no more requests must wait, because the scopes that name
// their cluster are about to be replaced. The wait ends with the ACK of those scopes, and after a timeout at the latest.
// A proxy that does not accept its scopes must still receive the removal.
func (s *Session) awaitsScopes(rec *record, want *Resource) bool {
	if !want.lacksEndpointsOf(rec.sent) || !s.areScopesChanging(want.name) {
		rec.withheldSince = time.Time{}
		return false
	}
	if rec.withheldSince.IsZero() {
		rec.withheldSince = s.now
	}
	timeout := lastEndpointsTimeout
	if want.queueing {
		timeout = scopesTimeout
	}
	until := rec.withheldSince.Add(timeout)
	if !s.now.Before(until) {
		return false
	}
	s.deadline = earlier(s.deadline, until)
	return true
}

// areScopesChanging reports whether the proxy may use a scope with routes to the cluster that is about to be replaced.
// A reconnecting proxy subscribes to scopes last, and until then they are unknown.
func (s *Session) areScopesChanging(cluster string) bool {
	sub := &s.subs[ScopeKind]
	if !sub.started || s.scopesUnknown {
		return true
	}
	if !s.mayBeUsed(cluster) {
		return false
	}
	for name, rec := range sub.records {
		if rec.mayUseOther(cluster, s.snapshot.resources[ScopeKind].get(name)) {
			return true
		}
	}
	return false
}
