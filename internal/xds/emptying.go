package xds

import (
	"slices"
	"time"
)

// awaitsRoutes tells whether endpoints of which none can serve any more have to wait, in place of those that the proxy has, because its routes to them are
// about to go elsewhere. It ends with the ACK of those routes, and after patience at the latest: a proxy that doesn't take its routes has to learn of the
// loss all the same.
func (s *session) awaitsRoutes(now time.Time, name string, rec *record, want *resource) bool {
	if want.serving || rec.sent == nil || rec.sent.known() && !rec.sent.serving || !s.routesLeave(name) {
		delete(s.emptying, name)
		return false
	}
	end, known := s.emptying[name]
	if !known {
		end = now.Add(patience)
		s.emptying[name] = end
	}
	if !now.Before(end) {
		return false
	}
	s.alarm = earlier(s.alarm, end)
	return true
}

// routesLeave tells whether the proxy may hold a virtual host that sends requests to a cluster with the named endpoints, and that is to be another one. A
// proxy that comes back asks for its routes last, and until then nothing is known of them.
func (s *session) routesLeave(endpoints string) bool {
	if !s.subs[routeKind].started {
		return true
	}
	for cluster, rec := range s.subs[clusterKind].records {
		if cluster != endpoints && (rec.sent == nil || rec.sent.endpointsName() != endpoints) {
			continue
		}
		for name, routes := range s.subs[routeKind].records {
			if want := s.world.resources[routeKind][name]; want != nil && routes.leaves(cluster, want) {
				return true
			}
		}
	}
	return false
}

// leaves tells whether the proxy may hold a version of this route configuration with a part that names the cluster and is not as it is desired, nor refused as it
// is desired.
func (rec *record) leaves(cluster string, want *resource) bool {
	if rec.lost {
		return true
	}
	return slices.ContainsFunc(rec.held, func(h holding) bool {
		if h.resource.version == want.version || !h.resource.refersTo(cluster) {
			return false
		}
		return !h.resource.known() || slices.ContainsFunc(h.resource.table.news(want.table), func(p *part) bool {
			return p.names(cluster) && rec.replaces(p, want.table.find(p.name))
		})
	})
}

// replaces tells whether a part that the proxy has can be expected to be replaced by the one that is desired, nil for none.
func (rec *record) replaces(has, desired *part) bool {
	if desired == nil {
		return true
	}
	refused, isRefused := rec.hosts[desired.name]
	return has.version != desired.version && (!isRefused || refused.version != desired.version)
}
