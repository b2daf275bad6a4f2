package xds

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// namesLimit is how many names of one kind a stream may subscribe to.
	namesLimit = 100_000
	// nameLimit is the length of a name in bytes. Ours are made of three Kubernetes names of at most
	// 253 characters.
	nameLimit = 1024
	// nameBytesLimit is how long all the names together may be that a stream subscribes to, in bytes. The
	// names of 100 000 resources of ours have about 100 each.
	nameBytesLimit = 16 << 20
)

// errTooMuch ends a stream that asks for more than the limits allow.
var errTooMuch = errors.New("too many or too long resource names")

// request is a discovery request of either form.
type request struct {
	typeURL string
	// nonce names the response that the request answers, if any.
	nonce string
	// refused is true for a NACK, whose reason is message.
	refused bool
	message string
	// subscribe, unsubscribe and initial are set in delta. initial are the versions that a
	// reconnecting proxy has.
	subscribe, unsubscribe []string
	initial                map[string]string
	// names is the whole subscription, in state of the world.
	names []string
	// version is what the proxy last accepted of the kind, in state of the world.
	version string
}

// response is a discovery response of either form. In state of the world, removed isn't sent: what
// was removed is missing.
type response struct {
	kind      kind
	number    uint64
	nonce     string
	resources []*resource
	removed   []string
	alone     string // the only resource that can be the reason of a NACK; empty for none
}

// verdict is a proxy's answer to one response.
type verdict struct {
	kind     kind
	accepted bool
	message  string   // the reason of a NACK
	names    []string // the suspects of a NACK
}

// output is what one step of a session leads to.
type output struct {
	responses []response
	verdict   *verdict // nil for none
}

// subscription is what one stream asked for and got of one kind.
type subscription struct {
	traits

	started    bool // the proxy has asked for this kind
	subscribed bool // to all, by the wildcard
	// named is true once a name was asked for: from then on an empty list is no longer a wildcard.
	named bool
	// brought is true when a returning proxy said what it has of the kind, and accepted when it said
	// that it has accepted a response.
	brought, accepted bool
	// mustReply is true when the next response must go out even if it is empty: a fresh proxy waits
	// for one.
	mustReply bool
	// mustDrain is true when nothing may be sent before all pending responses are answered.
	mustDrain bool
	names     map[string]struct{}
	records   map[string]*record
	// dirty are the names that may need a response, and retries those of them that go alone.
	dirty, retries queue
	// retried is true when the last response was one of retries: others have their turn.
	retried bool
	pending []response // those that the proxy hasn't answered yet, oldest first
	nonce   string     // of the last response
	// changed are the names of resources of which the state may be another one than at the last poll.
	changed map[string]struct{}
}

// wants tells whether the proxy asked for the name.
func (sub *subscription) wants(name string) bool {
	_, named := sub.names[name]
	return named || sub.subscribed
}

// note says that what is known of the name may be something else now.
func (sub *subscription) note(name string) { sub.changed[name] = struct{}{} }

// session is the state of one stream. Its methods are the only steps there are: each takes the time
// and returns what to send. It isn't safe for concurrent use.
type session struct {
	mode  Mode
	grace time.Duration
	// nameBytes is the length of all names that are subscribed to.
	nameBytes int
	// salt is no other stream's. It makes bytes that no proxy has seen.
	salt string
	// elsewhere are the versions that proxies on other streams refused.
	elsewhere *rejections
	// snapshot is what is desired. It is empty before publish, which comes first.
	snapshot *snapshot
	// left are the listeners that the proxy has lost, because it is about to go.
	left []string
	subs [kindCount]subscription
	// sent is the number of the last response of any kind.
	sent uint64
	// returned is true for a proxy that had a stream before.
	returned bool
	// pendingRemoval are clusters that are no longer desired but still on the stream, with the end of
	// their grace; zero while the proxy may hold a route that names the cluster.
	pendingRemoval map[string]time.Time
	// uses counts for each cluster the versions of scopes that name it and may be active, and
	// unknownUses the versions of which the content is unknown.
	uses        map[string]int
	unknownUses int
	// guesses are the names of certificates that no resource has as its own.
	guesses guesses
	// now is the time of the last tick.
	now time.Time
	// alarm is when something that is withheld is to be looked at again; zero for never.
	alarm time.Time
	// progress is when the scopes were first held back, or when the proxy has accepted a cluster or
	// endpoints since; zero while they are not held back.
	progress time.Time
	// unlisted is true while the scopes of a proxy that came back in state of the world are unknown.
	unlisted bool
	// returning is true while the list of clusters is held back from such a proxy, at most until
	// returnBy.
	returning bool
	returnBy  time.Time
}

// newSession begins a stream. grace is how long a removed cluster outlives the last route that
// named it.
func newSession(mode Mode, grace time.Duration, salt string, elsewhere *rejections) *session {
	s := &session{
		mode: mode, grace: grace, salt: salt, elsewhere: elsewhere, snapshot: &snapshot{},
		pendingRemoval: map[string]time.Time{}, uses: map[string]int{},
	}
	for k := range s.subs {
		s.subs[k] = subscription{
			traits: kind(k).traits(), names: map[string]struct{}{}, records: map[string]*record{},
			changed: map[string]struct{}{},
		}
	}
	return s
}

// publish makes w the desired snapshot.
func (s *session) publish(now time.Time, w *snapshot) output {
	changes := w.changesSince(s.snapshot)
	for _, c := range slices.Concat(changes, s.certificatesChanged(changes, w)) {
		if sub := &s.subs[c.kind]; sub.wants(c.name) {
			if s.find(c.kind, c.name) == nil {
				sub.records[c.name] = &record{since: s.sent}
			}
			sub.dirty.add(c.name)
		}
	}
	s.snapshot = w
	return s.tick(now)
}

// receive takes a request of the proxy. The error is errTooMuch, and the end of the stream. A type
// that isn't served is left unanswered.
func (s *session) receive(now time.Time, r request) (output, error) {
	k, served := kindOf(r.typeURL)
	if !served {
		return output{}, nil
	}
	sub := &s.subs[k]
	answer := s.settle(k, r)
	defer s.settleAll()
	if answer != nil && answer.accepted && k < listenerKind && !s.progress.IsZero() {
		s.progress = now
	}
	// In state of the world an answered nonce that comes again isn't an answer: the proxy asks anew.
	again := s.mode == ModeStateOfTheWorld && answer == nil && r.nonce != "" && r.nonce == sub.nonce
	if err := s.resubscribe(k, r, again); err != nil {
		return output{verdict: answer}, fmt.Errorf("%s subscription: %w", k, err)
	}
	out := s.tick(now)
	out.verdict = answer
	return out, nil
}

// wake returns the time at which tick has something to do, and false when only a request or a new
// snapshot can change anything.
func (s *session) wake() (time.Time, bool) {
	next := s.alarm
	for _, due := range s.pendingRemoval {
		if due.After(s.now) { // What is due already waits for something else.
			next = earlier(next, due)
		}
	}
	return next, !next.IsZero()
}

// earlier returns the earlier of two times of which zero stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// lists tells whether each response of the kind is the list of all resources.
func (s *session) lists(k kind) bool { return s.mode == ModeStateOfTheWorld && s.subs[k].wildcard }

// namesOf lists the names of resources.
func namesOf(resources []*resource) []string {
	names := make([]string, 0, len(resources))
	for _, res := range resources {
		names = append(names, res.name)
	}
	return names
}
