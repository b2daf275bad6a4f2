package session

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// model is an Envoy and both directions of its stream. The test delivers one message at a time.
type model struct {
	t        *testing.T
	seed     uint64
	random   *rand.Rand
	mode     Mode
	session  *Session
	snapshot *Snapshot
	now      time.Time
	rejects  bool // a good resource is sometimes rejected; bad ones always are

	bad bool // some of what is published is bad

	toProxy  []Response
	toServer []Request

	held       [KindCount]map[string]*Resource
	active     map[string]bool // clusters that were warm once
	warming    map[string]bool
	subscribed [KindCount]map[string]bool
	nonces     [KindCount]string
	// confirmed are the clusters and endpoints whose ACK the session received and whose removal was not sent since.
	confirmed [KindCount]map[string]bool
	// withoutEDS are confirmed clusters that served without endpoints from EDS.
	withoutEDS map[string]bool
	answered   map[string]Response
	// lastEndpoints are the endpoints that were sent last since the proxy subscribed to them.
	lastEndpoints map[string]*Resource
	// emptySince is since when none of the desired endpoints serves.
	emptySince map[string]time.Time
	trace      []string
	// seenBytes are the bytes of scopes that the proxy received. It ignores a scope with the same bytes, even if they
	// were in a rejected response and are not active.
	seenBytes map[string]string
	streams   int
	begun     bool // scopes were sent on the stream
	// polled is the state that an observer has who reads changes only.
	polled [KindCount]map[string]recordState
}

func newModel(t *testing.T, mode Mode, seed uint64) *model {
	t.Helper()
	m := &model{
		t: t, seed: seed, mode: mode, random: rand.New(rand.NewPCG(seed, uint64(len(mode)))),
		session: New(mode, scriptGrace, "salt", new(Rejections).Of("proxy")),
		now:     time.Unix(1_700_000_000, 0), active: map[string]bool{}, warming: map[string]bool{}, answered: map[string]Response{},
		withoutEDS: map[string]bool{}, lastEndpoints: map[string]*Resource{}, emptySince: map[string]time.Time{},
		seenBytes: map[string]string{},
	}
	for k := range m.held {
		m.held[k], m.subscribed[k], m.confirmed[k] = map[string]*Resource{}, map[string]bool{}, map[string]bool{}
	}
	m.rejects, m.bad = seed%2 == 0, seed%3 == 0
	m.connect()
	return m
}

// connect queues the first requests of a stream.
func (m *model) connect() {
	for k := range Kind(KindCount) {
		names := slices.Sorted(maps.Keys(m.subscribed[k]))
		if !k.traits().wildcard && len(names) == 0 {
			continue
		}
		r := Request{TypeURL: k.TypeURL(), Subscribe: names, Names: names, InitialVersions: map[string]string{}}
		for name, res := range m.held[k] {
			if m.mode == ModeDelta {
				r.InitialVersions[name] = res.Version()
			} else {
				r.Version = "known"
			}
		}
		m.toServer = append(m.toServer, r)
	}
}

// publish gives the session a new snapshot.
func (m *model) publish(items string) {
	m.t.Helper()
	w, err := cmp.Or(m.snapshot, new(Snapshot)).Replace(envoyresources.Parse(m.t, items))
	if err != nil {
		m.t.Fatal(err)
	}
	m.snapshot = w
	for name, endpoints := range w.resources[EndpointKind].all() {
		if since, known := m.emptySince[name]; endpoints.serving {
			delete(m.emptySince, name)
		} else if !known || since.IsZero() {
			m.emptySince[name] = m.now
		}
	}
	m.log("snapshot " + items)
	m.sent(m.session.Publish(m.now, w))
}

// advance advances the time, and ticks the session if it is due.
func (m *model) advance(d time.Duration) {
	m.now = m.now.Add(d)
	if at, due := m.session.NextTick(); due && !at.After(m.now) {
		m.log("tick")
		m.sent(m.session.Tick(m.now))
	}
}

// reconnect ends the stream and begins another one, whose first requests arrive together.
func (m *model) reconnect() {
	m.log("reconnect")
	m.session = New(m.mode, scriptGrace, fmt.Sprintf("salt%d", m.streams), new(Rejections).Of("proxy"))
	m.polled = [KindCount]map[string]recordState{}
	m.move()
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
	clear(m.lastEndpoints)
	clear(m.withoutEDS)
	for name := range m.active {
		m.withoutEDS[name] = true
	}
	if m.snapshot != nil {
		m.sent(m.session.Publish(m.now, m.snapshot))
	}
	m.connect()
	for m.snapshot != nil && len(m.toServer) > 0 {
		m.serverStep()
	}
}

// move sets where the proxy runs. Zones have the names of versions, see envoyresources.Endpoints.
func (m *model) move() {
	topology := Topology{Zone: []string{"", "0", "1"}[m.random.IntN(3)]}
	m.log("moves to zone " + topology.Zone)
	m.sent(m.session.SetTopology(m.now, topology))
}

// drain delivers all messages and answers without delay.
func (m *model) drain() {
	m.t.Helper()
	for steps := 0; len(m.toProxy)+len(m.toServer) > 0; steps++ {
		m.proxyStep()
		m.serverStep()
		if steps > 2000 {
			m.fail("it never ends")
		}
	}
}

// sent checks the responses of the session and queues them for the proxy.
func (m *model) sent(out Output) {
	for _, r := range out.Responses {
		m.log(fmt.Sprintf("  sends %s %s: %v -%v", r.Kind, r.Nonce, namesOf(r.Resources), r.Removed))
		for _, name := range r.Removed {
			if r.Kind == EndpointKind {
				delete(m.lastEndpoints, name)
			}
			if r.Kind == ClusterKind {
				delete(m.confirmed[ClusterKind], name)
				delete(m.confirmed[EndpointKind], name)
				delete(m.withoutEDS, name)
			}
		}
		switch r.Kind {
		case ScopeKind:
			m.checkRoutes(r.Resources)
			m.checkOneByOne(r)
		case EndpointKind:
			m.checkLosses(r.Resources)
		case ClusterKind, ListenerKind, SecretKind:
		}
		m.toProxy = append(m.toProxy, r)
		m.answered[r.Nonce] = r
	}
}

// serverStep delivers the next request. Requests wait for the first snapshot.
func (m *model) serverStep() {
	if len(m.toServer) == 0 || m.snapshot == nil {
		return
	}
	r := m.toServer[0]
	m.toServer = m.toServer[1:]
	k, _ := KindOf(r.TypeURL)
	m.log(fmt.Sprintf("request %s nonce %s rejected %v +%v -%v =%v",
		k, r.Nonce, r.Rejected, r.Subscribe, r.Unsubscribe, r.Names))
	if k == EndpointKind {
		maps.DeleteFunc(m.lastEndpoints, func(name string, _ *Resource) bool {
			return slices.Contains(r.Unsubscribe, name) ||
				m.mode == ModeStateOfTheWorld && !slices.Contains(r.Names, name)
		})
	}
	if answered, isAnswer := m.answered[r.Nonce]; isAnswer && !r.Rejected {
		for _, res := range answered.Resources {
			if k != EndpointKind || m.session.knows(ClusterKind, res.name) {
				m.confirmed[k][res.name] = true
				m.withoutEDS[res.name] = m.withoutEDS[res.name] || k == ClusterKind && !res.usesEDS
			}
		}
	}
	m.sent(m.session.Receive(m.now, r))
}

// proxyStep has the proxy apply the next response.
func (m *model) proxyStep() {
	if len(m.toProxy) == 0 {
		return
	}
	r := m.toProxy[0]
	m.toProxy = m.toProxy[1:]
	m.nonces[r.Kind] = r.Nonce
	bad := m.badResources(r)
	fresh := map[string]bool{}
	for _, res := range r.Resources {
		unasked := !r.Kind.traits().wildcard && !m.subscribed[r.Kind][res.name]
		// Envoy may drop good resources along with a bad one.
		if unasked || bad[res.name] || len(bad) > 0 && m.random.IntN(2) == 0 {
			continue
		}
		if r.Kind == ScopeKind && !m.recordBytes(res, len(bad) > 0) {
			continue
		}
		old := m.held[r.Kind][res.name]
		fresh[res.name] = old == nil || old.version != res.version
		m.held[r.Kind][res.name] = res
	}
	isRejected := len(bad) > 0
	m.log(fmt.Sprintf("proxy applies %s %s except %v", r.Kind, r.Nonce, slices.Sorted(maps.Keys(bad))))
	next := m.applyEffects(r, fresh)
	answer := Request{TypeURL: r.Kind.TypeURL(), Nonce: r.Nonce, Rejected: isRejected, Message: "no"}
	answer.Names = slices.Sorted(maps.Keys(m.subscribed[r.Kind]))
	m.toServer = append(m.toServer, answer)
	if next != nil {
		m.toServer = append(m.toServer, *next)
	}
	m.checkProxy()
}

// recordBytes records the bytes of a scope, and reports whether it becomes active.
func (m *model) recordBytes(res *Resource, isRejected bool) bool {
	bytes := string(res.appendMessage(nil))
	isNew := m.seenBytes[res.name] != bytes
	m.seenBytes[res.name] = bytes
	return isNew && !isRejected
}

// applyEffects applies the effects of a response and returns the request that follows from them.
func (m *model) applyEffects(r Response, fresh map[string]bool) *Request {
	switch r.Kind {
	case ClusterKind:
		m.dropClusters(r)
		again := false
		for name, changed := range fresh {
			if !m.held[ClusterKind][name].usesEDS {
				m.active[name] = true
			} else if changed {
				m.warming[name] = true
				again = again || m.subscribed[EndpointKind][name]
			}
		}
		wanted := map[string]bool{}
		for _, res := range m.held[ClusterKind] {
			if res.usesEDS {
				wanted[res.name] = true
			}
		}
		return m.changeSubscription(EndpointKind, wanted, again)
	case EndpointKind:
		for name := range fresh {
			if m.warming[name] {
				delete(m.warming, name)
				m.active[name] = true
			}
		}
	case ScopeKind:
		for _, name := range m.removedBy(r) {
			delete(m.held[ScopeKind], name)
			delete(m.seenBytes, name)
		}
		maps.DeleteFunc(m.seenBytes, func(name string, _ string) bool {
			return m.mode == ModeStateOfTheWorld && !slices.Contains(namesOf(r.Resources), name)
		})
	case ListenerKind, SecretKind:
	}
	return nil
}

// removedBy returns the names that a response removes.
func (m *model) removedBy(r Response) []string {
	if m.mode == ModeDelta {
		return r.Removed
	}
	var gone []string
	for name := range m.held[r.Kind] {
		if !slices.Contains(namesOf(r.Resources), name) {
			gone = append(gone, name)
		}
	}
	return gone
}

// dropClusters drops the clusters that a response removes.
func (m *model) dropClusters(r Response) {
	for _, name := range m.removedBy(r) {
		delete(m.held[ClusterKind], name)
		delete(m.active, name)
		delete(m.warming, name)
	}
}

// changeSubscription changes a subscription and returns the request for it.
func (m *model) changeSubscription(k Kind, wanted map[string]bool, again bool) *Request {
	r := &Request{TypeURL: k.TypeURL()}
	for name := range wanted {
		if !m.subscribed[k][name] {
			r.Subscribe = append(r.Subscribe, name)
		}
	}
	for name := range m.subscribed[k] {
		if !wanted[name] {
			r.Unsubscribe = append(r.Unsubscribe, name)
			delete(m.held[k], name)
		}
	}
	m.subscribed[k] = wanted
	slices.Sort(r.Subscribe)
	slices.Sort(r.Unsubscribe)
	if m.mode == ModeStateOfTheWorld {
		r.Names, r.Nonce = slices.Sorted(maps.Keys(wanted)), m.nonces[k]
	}
	if len(r.Subscribe)+len(r.Unsubscribe) == 0 && (m.mode == ModeDelta || !again) {
		return nil
	}
	return r
}
