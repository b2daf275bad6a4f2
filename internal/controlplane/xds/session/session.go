package session

import (
	"slices"
	"time"
)

// subscription is what a stream subscribed to and received of one kind.
type subscription struct {
	traits

	started         bool // the proxy sent a request for this kind
	subscribedToAll bool // by the wildcard
	// usesNames is true once a name was subscribed to: from then on an empty list is no longer a wildcard.
	usesNames bool
	// hasInitial is true if a reconnecting proxy reported versions of the kind, and hasAccepted if it reported that it
	// accepted a response.
	hasInitial, hasAccepted bool
	// mustReply forces the next response even if it is empty: a new Envoy blocks on its first response.
	mustReply bool
	// mustDrain is true if nothing may be sent before all pending responses are answered.
	mustDrain bool
	// names are the subscribed names, and whether they were charged, see Session.charge.
	names   map[string]bool
	records map[string]*record
	// dirty are the names that may need a response, and retries those of them that are sent alone.
	dirty, retries queue
	// lastWasRetry is true if the last response was one of retries: the next one is of dirty.
	lastWasRetry bool
	pending      []Response // unanswered responses, oldest first
	nonce        string     // of the last response
	// published are the resources of the kind, and changed the names of those whose state may have changed since the last
	// TakeChanged.
	published table
	changed   changedNames
}

// wants reports whether the proxy subscribed to the name.
func (sub *subscription) wants(name string) bool {
	_, hasName := sub.names[name]
	return hasName || sub.subscribedToAll
}

// markChanged records that the state of a resource may have changed.
func (sub *subscription) markChanged(name string) { sub.changed.add(name, sub.published) }

// Session is the state of one stream. Each step takes the current time and returns the responses to send. A session is
// not safe for concurrent use.
type Session struct {
	mode  Mode
	grace time.Duration
	// nameBytes is the total length of all subscribed names, and unknownBytes the memory of names that were not published
	// when the proxy named them. fleetUnknown contains unknownBytes of all streams of the fleet; nil does not count them.
	nameBytes, unknownBytes int
	fleetUnknown            *UnknownNames
	// salt is unique to the stream. It creates bytes that no proxy has received before.
	salt string
	// fleetRejections are the versions that proxies of the fleet rejected.
	fleetRejections ProxyRejections
	// snapshot is what is desired. It is empty before the first Publish.
	snapshot *Snapshot
	// withheldListeners are the listeners that the proxy must not have, see WithholdListeners.
	withheldListeners []string
	// topology is where the proxy runs, see SetTopology.
	topology Topology
	// withholdsSecrets is true for a proxy that receives no certificates, see WithholdSecrets.
	withholdsSecrets bool
	subs             [KindCount]subscription
	// lastNumber is the number of the last response of any kind.
	lastNumber uint64
	// reconnected is true for a proxy that had a stream before.
	reconnected bool
	// pendingRemoval are clusters that are no longer desired but still on the stream, with the end of their grace
	// period. It is zero while the proxy may use a scope that names the cluster.
	pendingRemoval map[string]time.Time
	// uses counts for each cluster the versions of scopes that name it and may be active. unknownUses counts the
	// versions whose content is unknown.
	uses        map[string]int
	unknownUses int
	serverNames serverNames
	// now is the time of the last tick.
	now time.Time
	// deadline is when something that is withheld must be decided again; zero for never.
	deadline time.Time
	// lastProgress is when the scopes were first withheld, or the proxy last accepted a cluster or endpoints since;
	// zero if they were not withheld.
	lastProgress time.Time
	// scopesUnknown is true while the scopes of a proxy that reconnected in state of the world are unknown.
	scopesUnknown bool
	// withholdsList is true while the list of clusters is withheld from such a proxy, at most until withholdUntil.
	withholdsList bool
	withholdUntil time.Time
}

// New returns the session of a new stream. A removed cluster outlives the last scope that named it by grace. The salt
// must be unique to the stream. The rejections are those of the fleet.
func New(mode Mode, grace time.Duration, salt string, rejections ProxyRejections) *Session {
	s := &Session{
		mode: mode, grace: grace, salt: salt, fleetRejections: rejections, snapshot: &Snapshot{},
		pendingRemoval: map[string]time.Time{}, uses: map[string]int{},
	}
	for k := range s.subs {
		s.subs[k] = subscription{
			traits: Kind(k).traits(), names: map[string]bool{}, records: map[string]*record{},
		}
	}
	return s
}

// Publish replaces the desired snapshot. It must be called before Receive.
func (s *Session) Publish(now time.Time, next *Snapshot) Output {
	changes := next.changesSince(s.snapshot)
	for _, c := range slices.Concat(changes, s.changedCertificates(changes, next)) {
		if sub := &s.subs[c.kind]; sub.wants(c.name) {
			if s.recordOf(c.kind, c.name) == nil {
				sub.records[c.name] = &record{createdAfter: s.lastNumber}
			}
			sub.dirty.add(c.name)
		}
	}
	s.snapshot = next
	for k := range s.subs {
		s.subs[k].published = next.resources[k]
	}
	return s.Tick(now)
}

// Receive processes a request of the proxy. It ignores types that are not served, and names above the limits.
func (s *Session) Receive(now time.Time, r Request) Output {
	k, isServed := KindOf(r.TypeURL)
	if !isServed {
		return Output{}
	}
	sub := &s.subs[k]
	answer := s.handleAnswer(k, r)
	defer s.pruneSynced()
	if answer != nil && answer.Accepted && k < ListenerKind && !s.lastProgress.IsZero() {
		s.lastProgress = now
	}
	// In state of the world a repeated nonce that was answered before is a new request, not an answer.
	isRepeated := s.mode == ModeStateOfTheWorld && answer == nil && r.Nonce != "" && r.Nonce == sub.nonce
	refused := s.updateSubscription(k, r, isRepeated)
	out := s.Tick(now)
	out.Answer, out.Refused = answer, refused
	return out
}

// NextTick returns the time at which Tick must be called, and false if only a request or a new snapshot can change
// anything.
func (s *Session) NextTick() (time.Time, bool) {
	next := s.deadline
	for _, due := range s.pendingRemoval {
		if due.After(s.now) { // What is due already waits for something else.
			next = earlier(next, due)
		}
	}
	return next, !next.IsZero()
}

// earlier returns the earlier of two times, where zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sendsLists reports whether each response of the kind is the list of all resources.
func (s *Session) sendsLists(k Kind) bool { return s.mode == ModeStateOfTheWorld && s.subs[k].wildcard }

// namesOf returns the names of resources.
func namesOf(resources []*Resource) []string {
	names := make([]string, 0, len(resources))
	for _, res := range resources {
		names = append(names, res.name)
	}
	return names
}
