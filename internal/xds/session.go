package xds

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	// flightLimit is how many responses of one kind may wait for their answer.
	// Then the stream is left alone until it answers; what changes meanwhile goes
	// out as one. Envoy holds back the ACK of a cluster while it warms it, so 1
	// would let one cluster hold up all others.
	flightLimit = 8
	// namesLimit is how many names of one kind a stream may subscribe to.
	namesLimit = 100_000
	// nameLimit is the length of a name in bytes. Ours are made of three
	// Kubernetes names of at most 253 characters.
	nameLimit = 1024
	// patience is how long a fresh proxy waits for all of a route configuration
	// before it gets the part that it can serve.
	patience = time.Second
)

// errTooMuch ends a stream that asks for more than the limits allow.
var errTooMuch = errors.New("too many or too long resource names")

// request is a discovery request of either form.
type request struct {
	typeURL string
	// node is the id that the proxy gives itself; only the first request of a
	// stream must carry it.
	node string
	// nonce names the response that the request answers, if any.
	nonce string
	// refused is true for a NACK, whose reason is message.
	refused bool
	message string
	// subscribe, unsubscribe and initial are set in delta. initial are the
	// versions that a reconnecting proxy has.
	subscribe, unsubscribe []string
	initial                map[string]string
	// names is the whole subscription, in state of the world.
	names []string
	// version is what the proxy last accepted of the kind, in state of the world.
	version string
}

// response is a discovery response of either form. In state of the world,
// removed isn't sent: what was removed is missing.
type response struct {
	kind      kind
	nonce     string
	resources []*resource
	removed   []string
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
	verdicts  []verdict
}

// flight is a response that the proxy hasn't answered yet.
type flight struct {
	number    uint64
	nonce     string
	resources []*resource
	removed   []string
	trial     bool // one group of an isolation
}

// subscription is what one stream asked for and got of one kind.
type subscription struct {
	started  bool // the proxy has asked for this kind
	wildcard bool
	// named is true once a name was asked for: from then on an empty list is no
	// longer a wildcard.
	named bool
	// owed is true when the next response must go out even if it is empty: a fresh
	// proxy waits for one.
	owed    bool
	names   map[string]struct{}
	records map[string]*record
	// dirty are the names that may need a response.
	dirty   map[string]struct{}
	flights []flight // oldest first
	nonce   string   // of the last response
	// isolation finds out which resources are refused; nil unless there is something
	// to find out.
	isolation *isolation
	// refused are the names of resources of which something was refused alone.
	refused map[string]struct{}
	// news are the names of resources of which the report may say something else
	// than when the book was last looked at.
	news map[string]struct{}
}

// wants tells whether the proxy asked for the name.
func (sub *subscription) wants(name string) bool {
	if sub.wildcard {
		return true
	}
	_, named := sub.names[name]
	return named
}

// record returns the record of a name and begins it if need be.
func (sub *subscription) record(name string, since uint64) *record {
	rec := sub.records[name]
	if rec == nil {
		rec = &record{since: since}
		sub.records[name] = rec
	}
	return rec
}

// note says that what the book has of the name may be something else now.
func (sub *subscription) note(name string) { sub.news[name] = struct{}{} }

// mark puts the name on the list of those to look at.
func (sub *subscription) mark(name string) { sub.dirty[name] = struct{}{} }

// session is the state of one stream. Its methods are the only steps there are:
// each takes the time and returns what to send. It isn't safe for concurrent use.
type session struct {
	mode  Mode
	grace time.Duration
	world *world // nil until the first one is published: nothing is answered
	subs  [kindCount]subscription
	// sent is the number of the last response of any kind.
	sent uint64
	// leaving are clusters that are no longer desired but still on the stream.
	leaving map[string]departure
	// warming are the names of endpoints whose cluster was sent after them: Envoy
	// warms the cluster until they come again.
	warming map[string]struct{}
	// emptying are the names of endpoints that wait for routes because none of them serves any more, and until when they do.
	emptying map[string]time.Time
	// alarm is when something that is withheld is to be looked at again; zero for
	// never.
	alarm time.Time
	// returning is true while the list of clusters is held back from a proxy that
	// comes back in state of the world, at most until returnBy.
	returning bool
	returnBy  time.Time
}

// newSession begins a stream. grace is how long a removed cluster outlives the
// last route that named it.
func newSession(mode Mode, grace time.Duration) *session {
	s := &session{mode: mode, grace: grace, leaving: map[string]departure{}, warming: map[string]struct{}{}, emptying: map[string]time.Time{}}
	for k := range s.subs {
		s.subs[k] = subscription{names: map[string]struct{}{}, records: map[string]*record{}, dirty: map[string]struct{}{}, refused: map[string]struct{}{}, news: map[string]struct{}{}}
	}
	return s
}

// publish makes w the desired world.
func (s *session) publish(now time.Time, w *world) output {
	old := s.world
	s.world = w
	if old == nil {
		s.markAll()
	} else if changes, complete := w.since(old.changes); complete {
		for _, c := range changes {
			if sub := &s.subs[c.kind]; sub.wants(c.name) {
				sub.mark(c.name)
			}
		}
	} else {
		s.markAll()
	}
	var out output
	s.flush(now, &out)
	return out
}

// receive takes a request of the proxy. The error is errTooMuch, and the end of
// the stream. A type that isn't served is left unanswered.
func (s *session) receive(now time.Time, r request) (output, error) {
	var out output
	k, served := kindOf(r.typeURL)
	if !served {
		return out, nil
	}
	sub := &s.subs[k]
	answer := s.settle(k, r, &out)
	var err error
	if s.mode == Delta {
		err = s.subscribeDelta(k, r)
	} else {
		// An answered nonce that comes again isn't an answer: the proxy asks anew.
		again := !answer && r.nonce != "" && r.nonce == sub.nonce
		err = s.subscribeWhole(k, r, again)
	}
	if err != nil {
		return out, fmt.Errorf("%s subscription: %w", k, err)
	}
	s.flush(now, &out)
	return out, nil
}

// tick lets the time pass. It is due at the time that wake returns.
func (s *session) tick(now time.Time) output {
	var out output
	s.flush(now, &out)
	return out
}

// wake returns the time at which tick has something to do, and false when only a
// request or a new world can change anything.
func (s *session) wake() (time.Time, bool) {
	next := s.alarm
	for _, d := range s.leaving {
		if !d.over {
			next = earlier(next, d.due)
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

// markAll has every subscription compared with the world in full.
func (s *session) markAll() {
	for k := range kind(kindCount) {
		s.markKind(k)
	}
}

// markKind has the subscription to one kind compared with the world in full.
func (s *session) markKind(k kind) {
	sub := &s.subs[k]
	for name := range sub.records {
		sub.mark(name)
	}
	if !sub.wildcard || s.world == nil {
		return
	}
	for name := range s.world.resources[k] {
		sub.mark(name)
	}
}

// settle takes the answer out of a request and tells whether there was one. A
// nonce that names no open response is stale and means nothing.
func (s *session) settle(k kind, r request, out *output) bool {
	sub := &s.subs[k]
	i := slices.IndexFunc(sub.flights, func(f flight) bool { return f.nonce == r.nonce })
	if r.nonce == "" || i < 0 {
		return false
	}
	if s.mode == StateOfTheWorld {
		s.settleEarlier(k, sub.flights[:i])
		sub.flights = slices.Delete(sub.flights, 0, i)
		i = 0
	}
	f := sub.flights[i]
	sub.flights = slices.Delete(sub.flights, i, i+1)
	v := verdict{kind: k, accepted: !r.refused, message: r.message}
	if r.refused {
		v.names = s.refuse(k, f, r.message)
	} else {
		s.accept(k, f)
	}
	out.verdicts = append(out.verdicts, v)
	return true
}

// settleEarlier closes the responses before the one that is answered. In state of
// the world a client may answer the last of several only. A list of all resources
// is replaced by the later one; of the other kinds each response stands for
// itself, and a refusal would have been said.
func (s *session) settleEarlier(k kind, flights []flight) {
	if k.wildcard() {
		return
	}
	for _, f := range flights {
		s.accept(k, f)
	}
}

// accept takes an ACK.
func (s *session) accept(k kind, f flight) {
	sub := &s.subs[k]
	for _, res := range f.resources {
		sub.note(res.name)
		if rec := sub.records[res.name]; rec != nil {
			rec.accept(res, f.number)
			if want := s.world.resources[k][res.name]; k == routeKind && want != nil {
				rec.forgetHosts(want.table)
			}
		}
	}
	if f.trial {
		sub.isolation.passed()
	}
}

// nextNonce numbers a response.
func (s *session) nextNonce() (uint64, string) {
	s.sent++
	return s.sent, strconv.FormatUint(s.sent, 10)
}
