package session

import (
	"fmt"
	"slices"
	"strings"
)

// canReconnect reports whether a proxy in state of the world can reconnect without a gap. Either none of its clusters
// was removed, or its scopes need no new cluster. The server does not receive the names of clusters without EDS.
func (m *model) canReconnect() bool {
	if m.rejects || m.bad || m.snapshot == nil {
		return false
	}
	gone := false
	for name, res := range m.held[ClusterKind] {
		missing := m.snapshot.resources[ClusterKind].get(name) == nil
		if missing && !res.usesEDS || m.warming[name] {
			return false
		}
		gone = gone || missing
	}
	for _, routes := range m.snapshot.resources[ScopeKind].all() {
		for _, cluster := range routes.clusters {
			if gone &&
				(!m.subscribed[EndpointKind][cluster] || !m.snapshot.resources[ClusterKind].get(cluster).usesEDS) {
				return false
			}
		}
	}
	return true
}

// checkRoutes requires that every cluster of a scope is confirmed when the scope is sent.
func (m *model) checkRoutes(routes []*Resource) {
	for _, route := range routes {
		for _, cluster := range route.clusters {
			if !m.confirmed[ClusterKind][cluster] {
				m.fail("sent a route to " + cluster + " before the cluster was ACKed")
			}
			if !m.withoutEDS[cluster] && !m.confirmed[EndpointKind][cluster] {
				m.fail("sent a route to " + cluster + " before its endpoints were ACKed")
			}
		}
	}
}

// checkLosses requires that endpoints that serve or queue no more requests are sent only if the proxy has no scope with
// routes to them that will be replaced. Exceptions are a timeout, and a proxy that has the cluster without EDS.
func (m *model) checkLosses(endpoints []*Resource) {
	for _, res := range endpoints {
		before := m.lastEndpoints[res.name]
		m.lastEndpoints[res.name] = res
		timeout := lastEndpointsTimeout
		if res.queueing {
			timeout = scopesTimeout
		}
		if m.rejects || m.bad || m.withoutEDS[res.name] || !res.lacksEndpointsOf(before) ||
			m.now.Sub(m.emptySince[res.name]) >= timeout {
			continue
		}
		for name, held := range m.held[ScopeKind] {
			if want := m.snapshot.resources[ScopeKind].get(name); !want.equals(held) && held.refersTo(res.name) {
				m.fail(fmt.Sprintf("%s lost its endpoints before scope %s was replaced", res.name, name))
			}
		}
	}
}

// checkOneByOne requires at most one changed scope in each response but the first, and no removal along with it.
func (m *model) checkOneByOne(r Response) {
	var changed []string
	for _, res := range r.Resources {
		if m.mode == ModeDelta || !m.held[ScopeKind][res.name].equals(res) {
			changed = append(changed, labelOf(m.t, res))
		}
	}
	gone := slices.DeleteFunc(slices.Clone(r.Removed), func(name string) bool { return m.held[ScopeKind][name] == nil })
	if m.begun && (len(changed) > 1 || len(changed) > 0 && len(gone) > 0) {
		m.fail(fmt.Sprintf("the scopes %v change and %v go at once", changed, gone))
	}
	m.begun = true
}

// badResources returns the resources of a response that the proxy rejects.
func (m *model) badResources(r Response) map[string]bool {
	bad := map[string]bool{}
	var changed []string
	for _, res := range r.Resources {
		if isBad(labelOf(m.t, res)) {
			bad[res.name] = true
		}
		if old := m.held[r.Kind][res.name]; old == nil || old.version != res.version {
			changed = append(changed, res.name)
		}
	}
	if m.rejects && len(changed) > 0 && m.random.IntN(10) == 0 {
		bad[changed[m.random.IntN(len(changed))]] = true
	}
	return bad
}

// isBad reports whether the proxy of the model rejects a resource with this label.
func isBad(label string) bool { return strings.Contains(label, "/bad") }

// checkProxy requires that every cluster of every scope on the proxy can serve.
func (m *model) checkProxy() {
	for name, route := range m.held[ScopeKind] {
		for _, cluster := range route.clusters {
			if !m.active[cluster] {
				m.fail(fmt.Sprintf("the proxy would answer 503: route %s names %s", name, cluster))
			}
		}
	}
}

// log records an event for the report of a failure.
func (m *model) log(line string) { m.trace = append(m.trace, line) }

// fail reports a violation with the last events.
func (m *model) fail(message string) {
	m.t.Helper()
	m.t.Fatalf("with seed %d: %s\n%s", m.seed, message, strings.Join(m.trace[max(0, len(m.trace)-100):], "\n"))
}

// versionsOf returns the versions of resources by name.
func versionsOf(resources map[string]*Resource) map[string]string {
	versions := map[string]string{}
	for name, res := range resources {
		versions[name] = res.version.String()
	}
	return versions
}
