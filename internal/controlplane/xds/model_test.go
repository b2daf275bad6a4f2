package xds

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// model is an Envoy and the two directions of its stream, which the test moves
// forward one message at a time.
type model struct {
	t        *testing.T
	seed     uint64
	random   *rand.Rand
	mode     Mode
	session  *session
	snapshot *snapshot
	now      time.Time
	refuses  bool // now and then a good resource is refused; bad ones always are

	bad bool // some of what is published is bad

	toProxy  []response
	toServer []request

	held       [kindCount]map[string]*resource
	active     map[string]bool // clusters that were warm once
	warming    map[string]bool
	subscribed [kindCount]map[string]bool
	nonces     [kindCount]string
	// confirmed are the clusters and endpoints whose ACK reached the session and
	// whose removal was not sent since.
	confirmed [kindCount]map[string]bool
	// direct are confirmed clusters that served without endpoints from EDS.
	direct   map[string]bool
	answered map[string]response
	// given are the endpoints that were sent last since the proxy subscribed to them.
	given map[string]*resource
	// emptied is since when the endpoints are desired to be such that none serves.
	emptied map[string]time.Time
	trace   []string
	// recorded are the bytes of scopes that the proxy has seen: it ignores one that comes again, even
	// if it came in a refused response and isn't in use.
	recorded map[string]string
	streams  int
	begun    bool // scopes were sent on the stream
	// polled is what somebody knows who hears of changes only.
	polled [kindCount]map[string]known
}

func newModel(t *testing.T, mode Mode, seed uint64) *model {
	t.Helper()
	m := &model{
		t: t, seed: seed, mode: mode, random: rand.New(rand.NewPCG(seed, uint64(len(mode)))), session: newSession(mode, scriptGrace, "salt", &rejections{}),
		now: time.Unix(1_700_000_000, 0), active: map[string]bool{}, warming: map[string]bool{}, answered: map[string]response{},
		direct: map[string]bool{}, given: map[string]*resource{}, emptied: map[string]time.Time{},
		recorded: map[string]string{},
	}
	for k := range m.held {
		m.held[k], m.subscribed[k], m.confirmed[k] = map[string]*resource{}, map[string]bool{}, map[string]bool{}
	}
	m.refuses, m.bad = seed%2 == 0, seed%3 == 0
	m.hello()
	return m
}

// hello queues the first requests of a stream.
func (m *model) hello() {
	for k := range kind(kindCount) {
		names := slices.Sorted(maps.Keys(m.subscribed[k]))
		if !k.traits().wildcard && len(names) == 0 {
			continue
		}
		r := request{typeURL: k.typeURL(), subscribe: names, names: names, initial: map[string]string{}}
		for name, res := range m.held[k] {
			if m.mode == ModeDelta {
				r.initial[name] = res.version.String()
			} else {
				r.version = "known"
			}
		}
		m.toServer = append(m.toServer, r)
	}
}

// publish gives the session a new world.
func (m *model) publish(items string) {
	m.t.Helper()
	w, err := cmp.Or(m.snapshot, new(snapshot)).replace(desiredWorld(m.t, items))
	if err != nil {
		m.t.Fatal(err)
	}
	m.snapshot = w
	for name, endpoints := range w.resources[endpointKind].all() {
		if since, known := m.emptied[name]; endpoints.serving {
			delete(m.emptied, name)
		} else if !known || since.IsZero() {
			m.emptied[name] = m.now
		}
	}
	m.note("world " + items)
	m.sent(m.session.publish(m.now, w))
}

// pass lets time go by, in steps of what the session wants to be woken at.
func (m *model) pass(d time.Duration) {
	m.now = m.now.Add(d)
	if at, due := m.session.wake(); due && !at.After(m.now) {
		m.note("tick")
		m.sent(m.session.tick(m.now))
	}
}

// reconnect cuts the stream and begins another one, whose first requests arrive
// together.
func (m *model) reconnect() {
	m.note("reconnect")
	m.session = newSession(m.mode, scriptGrace, fmt.Sprintf("salt%d", m.streams), &rejections{})
	m.polled = [kindCount]map[string]known{}
	m.streams++
	m.begun = false
	m.toProxy, m.toServer = nil, nil
	for k := range m.confirmed {
		m.nonces[k] = ""
		clear(m.confirmed[k])
		for name := range m.held[k] {
			m.confirmed[k][name] = true
		}
	}
	clear(m.given)
	clear(m.direct)
	for name := range m.active {
		m.direct[name] = true
	}
	if m.snapshot != nil {
		m.sent(m.session.publish(m.now, m.snapshot))
	}
	m.hello()
	for m.snapshot != nil && len(m.toServer) > 0 {
		m.serverStep()
	}
}

// canReturn tells whether a proxy that speaks state of the world can reconnect
// without a gap: nothing that it has is gone, or its routes need nothing new. Of
// clusters without endpoints the server can't know.
func (m *model) canReturn() bool {
	if m.refuses || m.bad || m.snapshot == nil {
		return false
	}
	gone := false
	for name, res := range m.held[clusterKind] {
		missing := m.snapshot.resources[clusterKind].get(name) == nil
		if missing && !res.byEDS || m.warming[name] {
			return false
		}
		gone = gone || missing
	}
	for _, routes := range m.snapshot.resources[scopeKind].all() {
		for _, cluster := range routes.clusters {
			if gone && (!m.subscribed[endpointKind][cluster] || !m.snapshot.resources[clusterKind].get(cluster).byEDS) {
				return false
			}
		}
	}
	return true
}

// exchange has everything answered, without delay.
func (m *model) exchange() {
	m.t.Helper()
	for steps := 0; len(m.toProxy)+len(m.toServer) > 0; steps++ {
		m.proxyStep()
		m.serverStep()
		if steps > 2000 {
			m.fail("it never ends")
		}
	}
}

// sent checks what the session sends and puts it on the wire.
func (m *model) sent(out output) {
	for _, r := range out.responses {
		m.note(fmt.Sprintf("  sends %s %s: %v -%v", r.kind, r.nonce, namesOf(r.resources), r.removed))
		for _, name := range r.removed {
			if r.kind == endpointKind {
				delete(m.given, name)
			}
			if r.kind == clusterKind {
				delete(m.confirmed[clusterKind], name)
				delete(m.confirmed[endpointKind], name)
				delete(m.direct, name)
			}
		}
		switch r.kind {
		case scopeKind:
			m.checkRoutes(r.resources)
			m.checkApart(r)
		case endpointKind:
			m.checkLosses(r.resources)
		case clusterKind, listenerKind, secretKind:
		}
		m.toProxy = append(m.toProxy, r)
		m.answered[r.nonce] = r
	}
}

// checkRoutes wants every cluster of a route confirmed when the route is sent.
func (m *model) checkRoutes(routes []*resource) {
	for _, route := range routes {
		for _, cluster := range route.clusters {
			if !m.confirmed[clusterKind][cluster] {
				m.fail("sent a route to " + cluster + " before the cluster was ACKed")
			}
			if !m.direct[cluster] && !m.confirmed[endpointKind][cluster] {
				m.fail("sent a route to " + cluster + " before its endpoints were ACKed")
			}
		}
	}
}

// checkLosses wants endpoints of which none serves any more sent only when the proxy holds no virtual host that sends requests to them and that is to be another
// one, unless that took too long, or the proxy has the cluster without EDS.
func (m *model) checkLosses(endpoints []*resource) {
	for _, res := range endpoints {
		before := m.given[res.name]
		m.given[res.name] = res
		if m.refuses || m.bad || m.direct[res.name] || res.serving || before == nil || !before.serving || m.now.Sub(m.emptied[res.name]) >= drainingPatience {
			continue
		}
		for name, held := range m.held[scopeKind] {
			if want := m.snapshot.resources[scopeKind].get(name); !want.is(held) && held.refersTo(res.name) {
				m.fail(fmt.Sprintf("%s lost its endpoints before scope %s was replaced", res.name, name))
			}
		}
	}
}

// checkApart wants at most one changed scope in a response that is not the first, and then no
// removal.
func (m *model) checkApart(r response) {
	var changed []string
	for _, res := range r.resources {
		if m.mode == ModeDelta || !m.held[scopeKind][res.name].is(res) {
			changed = append(changed, labelOf(m.t, res))
		}
	}
	gone := slices.DeleteFunc(slices.Clone(r.removed), func(name string) bool { return m.held[scopeKind][name] == nil })
	if m.begun && (len(changed) > 1 || len(changed) > 0 && len(gone) > 0) {
		m.fail(fmt.Sprintf("the scopes %v change and %v go at once", changed, gone))
	}
	m.begun = true
}

// serverStep delivers the next request, which waits for the first world.
func (m *model) serverStep() {
	if len(m.toServer) == 0 || m.snapshot == nil {
		return
	}
	r := m.toServer[0]
	m.toServer = m.toServer[1:]
	k, _ := kindOf(r.typeURL)
	m.note(fmt.Sprintf("request %s nonce %s refused %v +%v -%v =%v", k, r.nonce, r.refused, r.subscribe, r.unsubscribe, r.names))
	if k == endpointKind {
		maps.DeleteFunc(m.given, func(name string, _ *resource) bool {
			return slices.Contains(r.unsubscribe, name) || m.mode == ModeStateOfTheWorld && !slices.Contains(r.names, name)
		})
	}
	if answered, isAnswer := m.answered[r.nonce]; isAnswer && !r.refused {
		for _, res := range answered.resources {
			if k != endpointKind || m.session.knows(clusterKind, res.name) {
				m.confirmed[k][res.name] = true
				m.direct[res.name] = m.direct[res.name] || k == clusterKind && !res.byEDS
			}
		}
	}
	out, err := m.session.receive(m.now, r)
	if err != nil {
		m.t.Fatal(err)
	}
	m.sent(out)
}

// proxyStep has the proxy take the next response.
func (m *model) proxyStep() {
	if len(m.toProxy) == 0 {
		return
	}
	r := m.toProxy[0]
	m.toProxy = m.toProxy[1:]
	m.nonces[r.kind] = r.nonce
	culprits := m.culprits(r)
	fresh := map[string]bool{}
	for _, res := range r.resources {
		unasked := !r.kind.traits().wildcard && !m.subscribed[r.kind][res.name]
		// Envoy drops good ones beside a bad one.
		if unasked || culprits[res.name] || len(culprits) > 0 && m.random.IntN(2) == 0 {
			continue
		}
		if r.kind == scopeKind && !m.record(res, len(culprits) > 0) {
			continue
		}
		old := m.held[r.kind][res.name]
		fresh[res.name] = old == nil || old.version != res.version
		m.held[r.kind][res.name] = res
	}
	refused := len(culprits) > 0
	m.note(fmt.Sprintf("proxy takes %s %s but for %v", r.kind, r.nonce, slices.Sorted(maps.Keys(culprits))))
	follower := m.follow(r, fresh)
	answer := request{typeURL: r.kind.typeURL(), nonce: r.nonce, refused: refused, message: "no"}
	answer.names = slices.Sorted(maps.Keys(m.subscribed[r.kind]))
	m.toServer = append(m.toServer, answer)
	if follower != nil {
		m.toServer = append(m.toServer, *follower)
	}
	m.checkProxy()
}

// record notes the bytes of a scope, and tells whether it is used from now on.
func (m *model) record(res *resource, refused bool) bool {
	bytes := string(res.message())
	isNew := m.recorded[res.name] != bytes
	m.recorded[res.name] = bytes
	return isNew && !refused
}

// culprits are the resources of a response that the proxy refuses.
func (m *model) culprits(r response) map[string]bool {
	culprits := map[string]bool{}
	var news []string
	for _, res := range r.resources {
		if isBad(labelOf(m.t, res)) {
			culprits[res.name] = true
		}
		if old := m.held[r.kind][res.name]; old == nil || old.version != res.version {
			news = append(news, res.name)
		}
	}
	if m.refuses && len(news) > 0 && m.random.IntN(10) == 0 {
		culprits[news[m.random.IntN(len(news))]] = true
	}
	return culprits
}

// isBad tells whether something with this label is refused by the model's proxy.
func isBad(label string) bool { return strings.Contains(label, "/bad") }

// follow draws a response's consequences and returns the request they lead to.
func (m *model) follow(r response, fresh map[string]bool) *request {
	switch r.kind {
	case clusterKind:
		m.dropClusters(r)
		again := false
		for name, changed := range fresh {
			if !m.held[clusterKind][name].byEDS {
				m.active[name] = true
			} else if changed {
				m.warming[name] = true
				again = again || m.subscribed[endpointKind][name]
			}
		}
		wanted := map[string]bool{}
		for _, res := range m.held[clusterKind] {
			if res.byEDS {
				wanted[res.name] = true
			}
		}
		return m.resubscribe(endpointKind, wanted, again)
	case endpointKind:
		for name := range fresh {
			if m.warming[name] {
				delete(m.warming, name)
				m.active[name] = true
			}
		}
	case scopeKind:
		for _, name := range m.gone(r) {
			delete(m.held[scopeKind], name)
			delete(m.recorded, name)
		}
		maps.DeleteFunc(m.recorded, func(name string, _ string) bool {
			return m.mode == ModeStateOfTheWorld && !slices.Contains(namesOf(r.resources), name)
		})
	case listenerKind, secretKind:
	}
	return nil
}

// gone names what a response says is gone.
func (m *model) gone(r response) []string {
	if m.mode == ModeDelta {
		return r.removed
	}
	var gone []string
	for name := range m.held[r.kind] {
		if !slices.Contains(namesOf(r.resources), name) {
			gone = append(gone, name)
		}
	}
	return gone
}

// dropClusters removes what a response says is gone.
func (m *model) dropClusters(r response) {
	for _, name := range m.gone(r) {
		delete(m.held[clusterKind], name)
		delete(m.active, name)
		delete(m.warming, name)
	}
}

// resubscribe changes a subscription and returns the request that says so.
func (m *model) resubscribe(k kind, wanted map[string]bool, again bool) *request {
	r := &request{typeURL: k.typeURL()}
	for name := range wanted {
		if !m.subscribed[k][name] {
			r.subscribe = append(r.subscribe, name)
		}
	}
	for name := range m.subscribed[k] {
		if !wanted[name] {
			r.unsubscribe = append(r.unsubscribe, name)
			delete(m.held[k], name)
		}
	}
	m.subscribed[k] = wanted
	slices.Sort(r.subscribe)
	slices.Sort(r.unsubscribe)
	if m.mode == ModeStateOfTheWorld {
		r.names, r.nonce = slices.Sorted(maps.Keys(wanted)), m.nonces[k]
	}
	if len(r.subscribe)+len(r.unsubscribe) == 0 && (m.mode == ModeDelta || !again) {
		return nil
	}
	return r
}

// checkProxy wants every cluster of every route that the proxy holds in service.
func (m *model) checkProxy() {
	for name, route := range m.held[scopeKind] {
		for _, cluster := range route.clusters {
			if !m.active[cluster] {
				m.fail(fmt.Sprintf("the proxy would answer 503: route %s names %s", name, cluster))
			}
		}
	}
}

// note keeps what happened for the report of a failure.
func (m *model) note(line string) { m.trace = append(m.trace, line) }

// fail reports a violation with the last events.
func (m *model) fail(message string) {
	m.t.Helper()
	m.t.Fatalf("with seed %d: %s\n%s", m.seed, message, strings.Join(m.trace[max(0, len(m.trace)-100):], "\n"))
}

// versionsOf lists the versions of resources by name.
func versionsOf(resources map[string]*resource) map[string]string {
	versions := map[string]string{}
	for name, res := range resources {
		versions[name] = res.version.String()
	}
	return versions
}
