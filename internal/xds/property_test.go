package xds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

// TestAnyOrder plays random worlds, answers, refusals and delays. Whatever the
// order, it wants that a proxy never holds a route to a cluster that it can't
// serve, nor loses the endpoints of one before the route that goes elsewhere; and that when everything is answered it holds the last world but for
// what is bad, and that the bad are named.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Delta, StateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
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
			case m.mode == Delta:
				m.reconnect()
			case m.canReturn():
				m.reconnect()
				m.exchange()
				m.pass(scriptGrace)
				m.exchange()
			}
		}
		if m.random.IntN(3) == 0 {
			m.checkNews()
		}
	}
	m.refuses = false
	m.settle(m.randomWorld(9, m.random.IntN(2) == 0))
	m.checkCulprits()
	m.settle(m.randomWorld(10, false))
	for k := range kind(kindCount) {
		want, got := versionsOf(m.world.resources[k]), versionsOf(m.held[k])
		if diff := cmp.Diff(want, got); diff != "" {
			m.fail(fmt.Sprintf("in the end the %ss differ (-world +proxy):\n%s", k, diff))
		}
		if n := len(m.session.refusals(k, m.world)); n > 0 {
			m.fail(fmt.Sprintf("in the end %d %ss are held back", n, k))
		}
	}
}

// checkNews looks at the news of the session, and wants what is known by them to be
// what the whole book has.
func (m *model) checkNews() {
	m.t.Helper()
	st := &stream{session: m.session}
	st.look(m.world, func(v View) {
		for k := range kind(kindCount) {
			if m.book[k] == nil {
				m.book[k] = map[string]ResourceReport{}
			}
			for name := range v.News(k.typeURL()) {
				m.book[k][name] = v.Report(k.typeURL(), name)
			}
		}
	})
	whole := m.session.report([]kind{clusterKind, endpointKind, listenerKind, routeKind}, m.world)
	for k := range kind(kindCount) {
		known := map[string]ResourceReport{}
		for name, report := range m.book[k] {
			if report.Unconfirmed = nil; !cmp.Equal(report, ResourceReport{}) {
				known[name] = report
			}
		}
		want := map[string]ResourceReport{}
		for name, report := range whole[k.typeURL()] {
			if report.Unconfirmed = nil; !cmp.Equal(report, ResourceReport{}) {
				want[name] = report
			}
		}
		if diff := cmp.Diff(want, known); diff != "" {
			m.fail(fmt.Sprintf("the %ss in the book differ (-whole +by the news):\n%s", k, diff))
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

// checkCulprits wants every good resource and virtual host on the proxy as it is
// desired, unless it needs a cluster that is bad; and all bad ones named, and
// nothing else.
func (m *model) checkCulprits() {
	m.t.Helper()
	var bad, named []string
	for k := range kind(kindCount) {
		for name, want := range m.world.resources[k] {
			switch {
			case k == endpointKind && isBad(labelOf(m.t, m.world.resources[clusterKind][name])):
				// Whether the proxy asks for them depends on the cluster that it has.
			case k == routeKind:
				bad = append(bad, m.checkHosts(want)...)
			case isBad(labelOf(m.t, want)):
				bad = append(bad, k.String()+" "+name)
			case m.held[k][name] == nil || m.held[k][name].version != want.version:
				m.fail(fmt.Sprintf("the good %s %s isn't on the proxy", k, name))
			}
		}
		for _, refused := range m.session.refusals(k, m.world) {
			if k == endpointKind && isBad(labelOf(m.t, m.world.resources[clusterKind][refused.Resource])) {
				continue
			}
			named = append(named, strings.TrimSpace(k.String()+" "+refused.Resource+" "+refused.VirtualHost))
		}
	}
	slices.Sort(bad)
	slices.Sort(named)
	if diff := cmp.Diff(bad, named); diff != "" {
		m.fail("the culprits differ (-bad +named):\n" + diff)
	}
}

// checkHosts is checkCulprits for the virtual hosts of a route configuration. It
// returns those that the proxy was given and must have refused.
func (m *model) checkHosts(want *resource) (bad []string) {
	m.t.Helper()
	for _, host := range want.table.hosts {
		usable := !slices.ContainsFunc(host.clusters, m.isTainted) || m.session.serves(host)
		isBadHost := slices.ContainsFunc(virtualHostOf(m.t, host).GetRequestHeadersToRemove(), func(version string) bool { return version == "bad" })
		held := m.held[routeKind][want.name].parts().host(host.name)
		switch {
		case isBadHost && usable:
			bad = append(bad, "route "+want.name+" "+host.name)
		case isBadHost || !usable:
		case held == nil || held.version != host.version:
			m.fail(fmt.Sprintf("the good virtual host %s of %s isn't on the proxy", host.name, want.name))
		}
	}
	return bad
}

// virtualHostOf reads a part of a table.
func virtualHostOf(tb testing.TB, p *part) *routev3.VirtualHost {
	tb.Helper()
	table := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(p.body, table); err != nil {
		tb.Fatal(err)
	}
	return table.GetVirtualHosts()[0]
}

// isTainted tells whether a cluster or its endpoints are bad as they are desired.
func (m *model) isTainted(cluster string) bool {
	endpoints := m.world.resources[endpointKind][cluster]
	return isBad(labelOf(m.t, m.world.resources[clusterKind][cluster])) || endpoints != nil && isBad(labelOf(m.t, endpoints))
}

// randomWorld has up to six clusters and two route configurations to some of them
// with up to four virtual hosts. With an era, every version is of that era. With
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
	for _, route := range []string{"web", "tls"} {
		var hosts []string
		for _, host := range []string{"w", "x", "y", "z"} {
			targets := slices.DeleteFunc(slices.Clone(names), func(string) bool { return m.random.IntN(3) > 0 })
			if len(targets) == 0 {
				targets = []string{"default"}
			}
			if m.random.IntN(4) > 0 {
				hosts = append(hosts, host+"/"+version(3)+":"+strings.Join(targets, ","))
			}
		}
		if len(hosts) > 0 {
			items = append(items, route+"/"+strconv.Itoa(10*era+1+m.random.IntN(2))+">"+strings.Join(hosts, "+"))
		} else {
			items = append(items, route+">"+"w/"+version(3)+":default")
		}
	}
	return strings.Join(items, " ")
}
