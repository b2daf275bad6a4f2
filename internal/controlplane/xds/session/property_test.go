package session

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestSessionInAnyOrder plays random snapshots, answers, NACKs and delays. In any order, a proxy never has a scope with
// a cluster that it cannot serve. It never loses the endpoints of a cluster before the scopes with routes to it are
// replaced. Once everything is answered, the proxy has all good resources of the last snapshot, endpoints with the
// priorities for its zone, and exactly the bad ones are reported as rejected.
func TestSessionInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ModeDelta, ModeStateOfTheWorld} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(200) {
				newModel(t, mode, seed).play(150)
			}
		})
	}
}

// play takes random steps, then has everything answered.
func (m *model) play(steps int) {
	m.t.Helper()
	for range steps {
		switch step := m.random.IntN(20); {
		case step < 2:
			m.publish(m.randomItems(0, m.bad))
		case step < 9:
			m.proxyStep()
		case step < 17:
			m.serverStep()
		case step < 19:
			m.advance(time.Duration(m.random.IntN(3000)) * time.Millisecond)
		default:
			switch {
			case m.random.IntN(4) > 0:
				m.move()
			case m.mode == ModeDelta:
				m.reconnect()
			case m.canReconnect():
				m.reconnect()
				m.drain()
				m.advance(scriptGrace)
				m.drain()
			}
		}
		if m.random.IntN(3) == 0 {
			m.checkPolled()
		}
	}
	m.rejects = false
	m.converge(m.randomItems(9, m.random.IntN(2) == 0))
	m.checkRejected()
	m.converge(m.randomItems(10, false))
	m.checkTopology()
	for k := range Kind(KindCount) {
		want, got := versionsOf(mapOf(m.snapshot.resources[k])), versionsOf(m.held[k])
		if diff := cmp.Diff(want, got); diff != "" {
			m.fail(fmt.Sprintf("in the end the %ss differ (-snapshot +proxy):\n%s", k, diff))
		}
		if n := len(m.session.Rejected(k)); n > 0 {
			m.fail(fmt.Sprintf("in the end %d %ss are held back", n, k))
		}
	}
}

// checkTopology moves the proxy while answers are pending, and requires that it has all endpoints with the priorities of
// its last zone, although no endpoint has changed.
func (m *model) checkTopology() {
	m.t.Helper()
	for range 10 {
		m.move()
		m.proxyStep()
		if m.random.IntN(2) == 0 {
			m.serverStep()
		}
	}
	m.drain()
	for name, res := range m.held[EndpointKind] {
		if got := res.preference.topology; got != m.session.topology {
			m.fail(fmt.Sprintf("in the end the endpoints %s are for a proxy in zone %q", name, got.Zone))
		}
	}
}

// mapOf returns the resources of a table by name.
func mapOf(t table) map[string]*Resource { return maps.Collect(t.all()) }

// knows reports whether a resource is on the stream of a session.
func (s *Session) knows(k Kind, name string) bool {
	return s.isSynced(k, name) || s.subs[k].records[name] != nil
}

// states returns the states of all resources of a kind.
func (s *Session) states(k Kind) map[string]recordState {
	states := map[string]recordState{}
	for name := range s.subs[k].records {
		states[name] = s.recordState(k, name)
	}
	if s.snapshot != nil {
		for name := range s.snapshot.resources[k].all() {
			if s.isSynced(k, name) {
				states[name] = s.recordState(k, name)
			}
		}
	}
	return states
}

// checkPolled reads what has changed, and requires that an observer who reads changes only has the state of the
// session.
func (m *model) checkPolled() {
	m.t.Helper()
	for k := range Kind(KindCount) {
		if m.polled[k] == nil {
			m.polled[k] = map[string]recordState{}
		}
		changed := m.session.TakeChanged(k)
		if changed == nil {
			continue
		}
		for name := range changed {
			m.polled[k][name] = m.session.recordState(k, name)
			if reported := m.session.State(k, name); reported != m.polled[k][name].reported() {
				m.fail(fmt.Sprintf("%+v is reported of the %s %s, which is %+v", reported, k, name, m.polled[k][name]))
			}
		}
	}
	for k := range Kind(KindCount) {
		want := m.session.states(k)
		isBlank := func(_ string, state recordState) bool { return state == recordState{} }
		maps.DeleteFunc(want, isBlank)
		maps.DeleteFunc(m.polled[k], isBlank)
		if diff := cmp.Diff(want, m.polled[k]); diff != "" {
			m.fail(fmt.Sprintf("the %ss differ (-session +by polling):\n%s", k, diff))
		}
	}
}

// converge publishes a snapshot and has everything answered.
func (m *model) converge(items string) {
	m.t.Helper()
	m.publish(items)
	for range 4 {
		m.drain()
		m.advance(2 * scriptGrace)
	}
}

// checkRejected requires that every good resource is on the proxy in the desired version, except scopes that need a bad
// cluster. Exactly the bad resources must be reported as rejected.
func (m *model) checkRejected() {
	m.t.Helper()
	var bad, named []string
	for k := range Kind(KindCount) {
		for name, want := range m.snapshot.resources[k].all() {
			switch {
			case k == EndpointKind && isBad(labelOf(m.t, m.snapshot.resources[ClusterKind].get(name))):
				// Whether the proxy asks for them depends on the cluster that it has.
			case k == ScopeKind && slices.ContainsFunc(want.clusters, m.isClusterBad) &&
				!m.session.areClustersWarm(want):
			case isBad(labelOf(m.t, want)):
				bad = append(bad, k.String()+" "+name)
			case !m.held[k][name].equals(want):
				m.fail(fmt.Sprintf("the good %s %s isn't on the proxy", k, name))
			}
		}
		for _, rejected := range m.session.Rejected(k) {
			if k == EndpointKind && isBad(labelOf(m.t, m.snapshot.resources[ClusterKind].get(rejected))) {
				continue
			}
			named = append(named, k.String()+" "+rejected)
		}
	}
	slices.Sort(bad)
	slices.Sort(named)
	if diff := cmp.Diff(bad, named); diff != "" {
		m.fail("the bad differ (-bad +named):\n" + diff)
	}
}

// isClusterBad reports whether a desired cluster or its endpoints are bad.
func (m *model) isClusterBad(cluster string) bool {
	endpoints := m.snapshot.resources[EndpointKind].get(cluster)
	return isBad(labelOf(m.t, m.snapshot.resources[ClusterKind].get(cluster))) ||
		endpoints != nil && isBad(labelOf(m.t, endpoints))
}

// randomItems returns up to six clusters, and up to six scopes with routes to some of them. If era is not 0, it is the
// version of all of them. With bad, some of them are bad.
func (m *model) randomItems(era int, bad bool) string {
	version := func(n int) string {
		switch {
		case bad && m.random.IntN(12) == 0:
			return "bad"
		case era > 0:
			return strconv.Itoa(era)
		default:
			return strconv.Itoa(m.random.IntN(n))
		}
	}
	items := []string{"default/" + strconv.Itoa(era), "listener:web/" + version(1)}
	var names []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if m.random.IntN(2) == 0 {
			continue
		}
		item := name + "/" + version(3) + "." + version(3)
		if lost := []string{envoyresources.NoneServing, envoyresources.Queue}; era == 0 && m.random.IntN(5) == 0 {
			item = name + "/" + version(3) + "." + lost[m.random.IntN(len(lost))]
		}
		if m.random.IntN(5) == 0 {
			item = "static:" + name + "/" + version(3)
		}
		items, names = append(items, item), append(names, name)
	}
	for _, scope := range []string{"u", "v", "w", "x", "y", "z"} {
		targets := slices.DeleteFunc(slices.Clone(names), func(string) bool { return m.random.IntN(3) > 0 })
		if len(targets) == 0 {
			targets = []string{"default"}
		}
		if m.random.IntN(4) > 0 {
			items = append(items, scope+"/"+version(3)+">"+strings.Join(targets, ","))
		}
	}
	return strings.Join(items, " ")
}
