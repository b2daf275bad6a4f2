package xds

import (
	"slices"
	"time"
)

const (
	// drainingPatience is how long endpoints wait for routes.
	drainingPatience = time.Second
	// firstPatience is how long the first scopes wait for clusters while the proxy accepts none.
	firstPatience = 5 * time.Second
)

// serves tells whether the proxy can serve every cluster that the resource names.
func (s *session) serves(r *resource) bool {
	return !slices.ContainsFunc(r.clusters, func(name string) bool { return !s.isWarm(name) })
}

// isWarm tells whether the proxy can serve the cluster: it has ACKed it and, if it gets them by
// EDS, its endpoints.
func (s *session) isWarm(cluster string) bool {
	rec := s.look(clusterKind, cluster)
	isWarm := rec.warm || rec.lastAcked != nil && s.hasEndpoints(rec.lastAcked)
	if kept := s.subs[clusterKind].records[cluster]; kept != nil {
		kept.warm = isWarm
	}
	return isWarm
}

// hasEndpoints tells whether the proxy has the endpoints that a cluster needs, in whatever version.
func (s *session) hasEndpoints(cluster *resource) bool {
	return !cluster.needsEndpoints() || s.look(endpointKind, cluster.name).lastAcked != nil
}

// holdsScopes tells whether the first scopes are held back. They make a fresh Envoy ready, and in
// state of the world they take the place of all that a returning one has: what is missing is
// answered with 404. So they wait for clusters that can be expected to become warm.
func (s *session) holdsScopes() bool {
	sub := &s.subs[scopeKind]
	if sub.nonce != "" || sub.brought || !s.anyScopeWaits() {
		return false
	}
	if s.progress.IsZero() {
		s.progress = s.now
	}
	end := s.progress.Add(firstPatience)
	if !s.now.Before(end) {
		return false
	}
	s.alarm = earlier(s.alarm, end)
	return true
}

// anyScopeWaits tells whether a scope can't be served yet, and will.
func (s *session) anyScopeWaits() bool {
	for _, scope := range s.snapshot.resources[scopeKind].all() {
		if !s.serves(scope) && !s.isHopeless(scope) {
			return true
		}
	}
	return false
}

// isHopeless tells whether the scope needs a cluster that the proxy can't serve and refuses, or of
// which it refuses the endpoints, so that waiting is in vain.
func (s *session) isHopeless(scope *resource) bool {
	return slices.ContainsFunc(scope.clusters, func(name string) bool {
		want := s.snapshot.resources[clusterKind].get(name)
		return want != nil && !s.isWarm(name) &&
			(s.isRejected(clusterKind, name) || want.byEDS && s.isRejected(endpointKind, name))
	})
}

// isRejected tells whether a resource was refused alone as it is desired.
func (s *session) isRejected(k kind, name string) bool {
	rec := s.look(k, name)
	return rec.rejects(s.desired(k, name))
}

// awaitsRoutes tells whether endpoints of which none can serve any more have to wait, in place of
// those that the proxy has, because its routes to them are about to go elsewhere. It ends with the
// ACK of those routes, and after drainingPatience at the latest: a proxy that doesn't take its
// routes has to learn of the loss all the same.
func (s *session) awaitsRoutes(rec *record, want *resource) bool {
	hasNone := rec.sent == nil || rec.sent.known() && !rec.sent.serving
	if want.serving || hasNone || !s.routesLeave(want.name) {
		rec.drainsUntil = time.Time{}
		return false
	}
	if rec.drainsUntil.IsZero() {
		rec.drainsUntil = s.now.Add(drainingPatience)
	}
	if !s.now.Before(rec.drainsUntil) {
		return false
	}
	s.alarm = earlier(s.alarm, rec.drainsUntil)
	return true
}

// routesLeave tells whether the proxy may hold a scope that sends requests to the cluster, and that is
// to be another one. A proxy that comes back asks for its routes last, and until then nothing is known of
// them.
func (s *session) routesLeave(cluster string) bool {
	sub := &s.subs[scopeKind]
	if !sub.started || s.unlisted {
		return true
	}
	if !s.mayBeUsed(cluster) {
		return false
	}
	for name, rec := range sub.records {
		if rec.mayUseOther(cluster, s.snapshot.resources[scopeKind].get(name)) {
			return true
		}
	}
	return false
}
