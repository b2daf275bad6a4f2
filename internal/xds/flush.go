package xds

import (
	"cmp"
	"slices"
	"time"
)

// action is what a name on the list of those to look at needs.
type action int

const (
	nothing action = iota
	send
	sendAlone // in a response of its own
	try       // in a response of its own, once all others are answered
	remove
	wait // none of these now, but look again at the next step
)

// flush sends what is due, in the order that makes before it breaks.
func (s *session) flush(now time.Time, out *output) {
	if s.world == nil {
		return
	}
	s.alarm = time.Time{}
	s.releaseDue(now)
	for k := range kind(kindCount) {
		s.flushKind(now, k, out)
	}
	s.scheduleLeaving(now)
}

// flushKind sends what is due of one kind, in most cases as one response.
func (s *session) flushKind(now time.Time, k kind, out *output) {
	sub := &s.subs[k]
	if !sub.started || k == clusterKind && s.holdsList(now) {
		return
	}
	s.isolate(now, k, out)
	if sub.isolation != nil || len(sub.flights) >= flightLimit {
		return
	}
	var sending, alone []*resource
	var removed []string
	for _, name := range sorted(sub.dirty) {
		sub.note(name)
		res, todo := s.decide(now, k, name)
		switch todo {
		case send:
			sending = append(sending, res)
		case sendAlone:
			alone = append(alone, res)
		case try:
			sub.suspect(k, []string{name})
		case remove:
			removed = append(removed, name)
		default:
		}
		if todo != wait && todo != sendAlone && !s.behind(k, name, res) {
			delete(sub.dirty, name)
		}
	}
	if len(sending) > 0 || len(removed) > 0 || sub.owed && sub.isolation == nil {
		s.emit(k, sending, removed, out)
	}
	for _, res := range alone {
		s.emit(k, []*resource{res}, nil, out)
	}
	s.isolate(now, k, out)
}

// behind tells whether a version older than the desired one is being sent, so
// that the name needs another look.
func (s *session) behind(k kind, name string, sending *resource) bool {
	return k == routeKind && sending != nil && sending != s.world.resources[k][name]
}

// decide tells what is to be done about one name, and with which version.
func (s *session) decide(now time.Time, k kind, name string) (*resource, action) {
	rec, want := s.subs[k].records[name], s.world.resources[k][name]
	if want == nil {
		if k == endpointKind {
			delete(s.emptying, name)
		}
		return s.decideAbsent(k, name, rec)
	}
	if k == clusterKind {
		delete(s.leaving, name)
	}
	if k == routeKind {
		return s.decideTable(now, s.subs[k].record(name, s.sent), want)
	}
	if rec == nil {
		return want, send
	}
	switch {
	case k == endpointKind && s.awaitsRoutes(now, name, rec, want):
		return nil, wait
	case rec.refusal != nil && rec.refusal.alone:
		return rec.decideRefused(want)
	case rec.isOpen(want):
		return nil, try
	default:
		return rec.decideSame(want)
	}
}

// decideSame is decide for a resource that may have been sent already.
func (rec *record) decideSame(want *resource) (*resource, action) {
	if rec.sent != nil && rec.sent.version == want.version {
		rec.recognise(want)
		if !rec.force {
			return nil, nothing
		}
	}
	return want, send
}

// decideRefused is decide for a resource that was refused alone. The proxy keeps
// its last good version. A new version is under suspicion too: it has to prove
// itself before it travels with others again.
func (rec *record) decideRefused(want *resource) (*resource, action) {
	switch {
	case rec.base != nil && rec.base.version == want.version:
		rec.refusal = nil
		return rec.decideSame(want)
	case !rec.condemns(want):
		return nil, try
	case !rec.force:
		return nil, nothing
	case rec.base == nil:
		// The proxy asks for it.
		return nil, try
	case !rec.base.known():
		return nil, nothing
	default:
		return rec.base, send
	}
}

// decideAbsent is decide for a name that isn't in the world.
func (s *session) decideAbsent(k kind, name string, rec *record) (*resource, action) {
	if rec == nil {
		return nil, nothing
	}
	if rec.refusal != nil && rec.refusal.alone {
		rec.refusal = nil
	}
	switch {
	case rec.sent == nil:
		// The client asked for something that doesn't exist. Only delta can say so.
		if s.mode == StateOfTheWorld || rec.absent && !rec.force {
			return nil, nothing
		}
		return nil, remove
	case s.lingers(k, name):
		if rec.force && rec.sent.known() {
			return rec.sent, send
		}
		return nil, nothing
	case s.mode == StateOfTheWorld && !k.wildcard():
		// There are no removals of these kinds; the client drops them by itself.
		return nil, nothing
	default:
		return nil, remove
	}
}

// emit makes one response of what was decided, notes it and appends it.
func (s *session) emit(k kind, sending []*resource, removed []string, out *output) {
	sub := &s.subs[k]
	number, nonce := s.nextNonce()
	for _, res := range sending {
		sub.note(res.name)
		s.noteSent(k, res, number)
	}
	for _, name := range removed {
		sub.note(name)
		s.noteRemoved(k, name, number)
	}
	if s.mode == StateOfTheWorld && k.wildcard() {
		sending = s.complete(k, number)
	}
	sub.owed = false
	sub.nonce = nonce
	sub.flights = append(sub.flights, flight{number: number, nonce: nonce, resources: sending, removed: removed})
	out.responses = append(out.responses, response{kind: k, nonce: nonce, resources: sending, removed: removed})
}

// complete returns everything of a kind that the stream has, in order of name:
// what a response in state of the world must hold. What it leaves out is gone from
// the proxy with it, whatever is said of an earlier response.
func (s *session) complete(k kind, number uint64) []*resource {
	all := make([]*resource, 0, len(s.subs[k].records))
	for name, rec := range s.subs[k].records {
		switch {
		case rec.sent == nil:
			rec.since = number
		case rec.sent.known():
			s.subs[k].note(name)
			rec.sentIn = number
			all = append(all, rec.sent)
		default:
		}
	}
	slices.SortFunc(all, func(a, b *resource) int { return cmp.Compare(a.name, b.name) })
	return all
}

// noteSent keeps the books of a resource that goes out.
func (s *session) noteSent(k kind, res *resource, number uint64) {
	rec := s.subs[k].record(res.name, number-1)
	before := rec.sent
	rec.send(res, number, k == routeKind)
	switch k {
	case clusterKind:
		if before == nil || before.version != res.version || rec.acked == nil {
			s.rewarm(res.endpoints)
		}
	case endpointKind:
		delete(s.warming, res.name)
		delete(s.emptying, res.name)
	default:
	}
}

// rewarm has endpoints sent behind their cluster, which waits for them. If the
// proxy hasn't subscribed to them yet, it will and then gets them anyway.
func (s *session) rewarm(name string) {
	if name == "" {
		return
	}
	s.warming[name] = struct{}{}
	sub := &s.subs[endpointKind]
	if rec := sub.records[name]; rec != nil {
		rec.force = true
		sub.mark(name)
	}
}

// noteRemoved keeps the books of a resource whose removal goes out.
func (s *session) noteRemoved(k kind, name string, number uint64) {
	sub := &s.subs[k]
	rec := sub.record(name, number)
	switch k {
	case routeKind:
		// Envoy ignores the removal of routes in use and drops them with their
		// listener, when it unsubscribes. Until then it may hold them.
		rec.sent, rec.acked, rec.force, rec.absent = nil, nil, false, true
		rec.hosts, rec.isolation, rec.trying = nil, nil, false
		return
	case clusterKind:
		delete(s.leaving, name)
		s.forgetEndpoints(rec, number)
	default:
	}
	if _, named := sub.names[name]; named {
		rec.forget(number)
		return
	}
	delete(sub.records, name)
}
