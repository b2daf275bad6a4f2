package xds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAnyOrder plays random worlds, answers, refusals and delays. Whatever the
// order, it wants that a proxy never holds a route to a cluster that it can't
// serve, nor loses the endpoints of one before the route that goes elsewhere; and that when everything is answered it holds the last world but for
// what is bad, and that the bad are named.
func TestAnyOrder(t *testing.T) {
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

// play takes random steps, then has everything accepted and settled.
func (m *model) play(steps int) {
	m.t.Helper()
	for range steps {
		switch dice := m.random.IntN(20); {
		case dice < 2:
			m.publish(m.randomWorld(0, m.bad))
		case dice < 9:
			m.proxyStep()
		case dice < 17:
			m.serverStep()
		case dice < 19:
			m.pass(time.Duration(m.random.IntN(3000)) * time.Millisecond)
		default:
			switch {
			case m.random.IntN(4) > 0:
			case m.mode == ModeDelta:
				m.reconnect()
			case m.canReturn():
				m.reconnect()
				m.exchange()
				m.pass(scriptGrace)
				m.exchange()
			}
		}
		if m.random.IntN(3) == 0 {
			m.checkPolled()
		}
	}
	m.refuses = false
	m.settle(m.randomWorld(9, m.random.IntN(2) == 0))
	m.checkCulprits()
	m.settle(m.randomWorld(10, false))
	for k := range kind(kindCount) {
		want, got := versionsOf(mapOf(m.snapshot.resources[k])), versionsOf(m.held[k])
		if diff := cmp.Diff(want, got); diff != "" {
			m.fail(fmt.Sprintf("in the end the %ss differ (-world +proxy):\n%s", k, diff))
		}
		if n := len(m.session.heldBack(k)); n > 0 {
			m.fail(fmt.Sprintf("in the end %d %ss are held back", n, k))
		}
	}
}

// mapOf are the resources of a table by name.
func mapOf(t table) map[string]*resource { return maps.Collect(t.all()) }

// knows tells whether a session has anything to do with a resource.
func (s *session) knows(k kind, name string) bool {
	return s.isSettled(k, name) || s.subs[k].records[name] != nil
}

// states are what a session knows of the resources of a kind.
func (s *session) states(k kind) map[string]known {
	states := map[string]known{}
	for name := range s.subs[k].records {
		states[name] = s.known(k, name)
	}
	if s.snapshot != nil {
		for name := range s.snapshot.resources[k].all() {
			if s.isSettled(k, name) {
				states[name] = s.known(k, name)
			}
		}
	}
	return states
}

// checkPolled looks at what has changed, and wants what is known by that to be what the session has.
func (m *model) checkPolled() {
	m.t.Helper()
	st := &stream{session: m.session}
	v := st.poll()
	for k := range kind(kindCount) {
		if m.polled[k] == nil {
			m.polled[k] = map[string]known{}
		}
		for name := range v.Changed(k.typeURL()) {
			m.polled[k][name] = m.session.known(k, name)
			if told := v.Resource(k.typeURL(), name); told != m.polled[k][name].told() {
				m.fail(fmt.Sprintf("%+v is told of the %s %s, which is %+v", told, k, name, m.polled[k][name]))
			}
		}
	}
	for k := range kind(kindCount) {
		want := m.session.states(k)
		isBlank := func(_ string, state known) bool { return state == known{} }
		maps.DeleteFunc(want, isBlank)
		maps.DeleteFunc(m.polled[k], isBlank)
		if diff := cmp.Diff(want, m.polled[k]); diff != "" {
			m.fail(fmt.Sprintf("the %ss differ (-session +by polling):\n%s", k, diff))
		}
	}
}

// settle publishes a world and has everything answered.
func (m *model) settle(items string) {
	m.t.Helper()
	m.publish(items)
	for range 4 {
		m.exchange()
		m.pass(2 * scriptGrace)
	}
}

// checkCulprits wants every good resource on the proxy as it is desired, unless it is a scope that
// needs a cluster that is bad; and all bad ones named, and nothing else.
func (m *model) checkCulprits() {
	m.t.Helper()
	var bad, named []string
	for k := range kind(kindCount) {
		for name, want := range m.snapshot.resources[k].all() {
			switch {
			case k == endpointKind && isBad(labelOf(m.t, m.snapshot.resources[clusterKind].get(name))):
				// Whether the proxy asks for them depends on the cluster that it has.
			case k == scopeKind && slices.ContainsFunc(want.clusters, m.isTainted) && !m.session.serves(want):
			case isBad(labelOf(m.t, want)):
				bad = append(bad, k.String()+" "+name)
			case !m.held[k][name].is(want):
				m.fail(fmt.Sprintf("the good %s %s isn't on the proxy", k, name))
			}
		}
		for _, rejected := range m.session.heldBack(k) {
			if k == endpointKind && isBad(labelOf(m.t, m.snapshot.resources[clusterKind].get(rejected))) {
				continue
			}
			named = append(named, k.String()+" "+rejected)
		}
	}
	slices.Sort(bad)
	slices.Sort(named)
	if diff := cmp.Diff(bad, named); diff != "" {
		m.fail("the culprits differ (-bad +named):\n" + diff)
	}
}

// isTainted tells whether a cluster or its endpoints are bad as they are desired.
func (m *model) isTainted(cluster string) bool {
	endpoints := m.snapshot.resources[endpointKind].get(cluster)
	return isBad(labelOf(m.t, m.snapshot.resources[clusterKind].get(cluster))) || endpoints != nil && isBad(labelOf(m.t, endpoints))
}

// randomWorld has up to six clusters and up to six scopes with routes to some of them. With an era, every version is of that era. With
// bad, some are bad.
func (m *model) randomWorld(era int, bad bool) string {
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
		if era == 0 && m.random.IntN(5) == 0 {
			item = name + "/" + version(3) + "." + noneServes
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
