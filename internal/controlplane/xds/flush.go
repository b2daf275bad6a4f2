package xds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// action is what a name on the list of those to look at needs.
type action int

const (
	nothing action = iota
	send
	sendAlone // in a response of its own, when all others are answered
	remove
	wait // none of these now, but look again at the next step
)

// tick sends what is due, in the order that makes before it breaks. Time alone makes something due at
// the time that wake returns.
func (s *session) tick(now time.Time) (out output) {
	s.now, s.alarm = now, time.Time{}
	s.releaseDue()
	for k := range kind(kindCount) {
		for s.flushKind(k, &out) {
		}
	}
	s.scheduleRemovals()
	return out
}

// flushKind sends one response of a kind, if one is due, and tells whether it did.
func (s *session) flushKind(k kind, out *output) bool {
	sub := &s.subs[k]
	sub.mustDrain = sub.mustDrain && len(sub.pending) > 0
	if !sub.started || s.isHeld(k) || !sub.maySend() {
		return false
	}
	if sub.retries.count() > 0 && !sub.retried {
		if s.retry(k, out) {
			return true
		}
		if sub.retries.count() > 0 {
			return false // It is the turn of one that waits until all else is answered.
		}
	}
	sending, removed := s.collect(k)
	if len(sending) > 0 || len(removed) > 0 || sub.mustReply && sub.retries.count() == 0 {
		sub.retried = false
		s.emit(k, sending, removed, "", out)
		return true
	}
	return s.retry(k, out)
}

// maySend tells whether the pending responses allow another one. While a resource that was sent alone
// waits for its answer nothing else of the kind is sent, so that the verdict is about it only: in
// state of the world Envoy may answer several responses at once.
func (sub *subscription) maySend() bool {
	isAlone := func(p response) bool { return p.alone != "" }
	return len(sub.pending) < sub.inFlight && !sub.mustDrain && !slices.ContainsFunc(sub.pending, isAlone)
}

// isHeld tells whether the first response of a kind is held back for now.
func (s *session) isHeld(k kind) bool {
	switch k {
	case clusterKind:
		return s.holdsList()
	case scopeKind:
		return s.holdsScopes()
	default:
		return false
	}
}

// resourcesAtOnce is how many resources one response has, so that what a proxy is sent when it joins is
// marshalled piece by piece.
const resourcesAtOnce = 500

// collect takes what is due from the names to look at: as much as a response has, or one change of a kind
// whose changes travel apart. The first scopes go together, since they make Envoy ready, and so does what
// every response lists.
func (s *session) collect(k kind) (sending []*resource, removed []string) {
	sub := &s.subs[k]
	single := sub.apart && sub.nonce != ""
	divides := !sub.apart && !s.lists(k)
	var waiting []string
	isFull := func() bool {
		return single && (len(sending) > 0 || len(removed) > 0 && len(waiting) > 0) || divides && len(sending) >= resourcesAtOnce
	}
	for left := sub.dirty.count(); left > 0 && !isFull(); left-- {
		name, _ := sub.dirty.pop()
		if sub.retries.has(name) && s.desired(k, name) != nil {
			continue
		}
		sub.note(name)
		switch res, todo := s.decide(k, name); {
		case todo == wait || todo == send && single && len(removed) > 0:
			waiting = append(waiting, name) // Removals travel without a change that could be refused.
		case todo == send:
			sending = append(sending, res)
		case todo == sendAlone:
			sub.retries.add(name)
		case todo == remove:
			removed = append(removed, name)
		default:
		}
	}
	if sub.apart && len(sending) > 0 {
		waiting, removed = append(waiting, removed...), nil
	}
	for _, name := range waiting {
		sub.dirty.add(name)
	}
	slices.SortFunc(sending, byName)
	slices.Sort(removed)
	return sending, removed
}

// retry sends the next of the resources that go alone, when everything else is answered.
func (s *session) retry(k kind, out *output) bool {
	sub := &s.subs[k]
	for len(sub.pending) == 0 {
		name, some := sub.retries.pop()
		if !some {
			return false
		}
		sub.note(name)
		switch res, todo := s.decide(k, name); todo {
		case send, sendAlone:
			sub.retried = true
			s.emit(k, []*resource{res}, nil, name, out)
			return true
		case wait, remove:
			sub.dirty.add(name)
		default:
		}
	}
	return false
}

// decide tells what is to be done about one name, and with which version.
func (s *session) decide(k kind, name string) (*resource, action) {
	rec, want := s.subs[k].records[name], s.desired(k, name)
	switch {
	case rec == nil:
		return nil, nothing // It is settled, or not wanted.
	case want == nil:
		return s.decideAbsent(k, name, rec)
	case k == clusterKind:
		delete(s.pendingRemoval, name)
	}
	if rec.isAlone() && rec.lastAcked.is(want) {
		rec.rejection = nil // What was good before is desired again.
	}
	switch {
	case !rec.needs(want):
		return nil, nothing
	case rec.rejects(want):
		return rec.fallBack(want)
	case !s.serves(want):
		return nil, wait
	case k == endpointKind && s.awaitsRoutes(rec, want):
		return nil, wait
	case rec.doubtful || rec.isAlone() || s.elsewhere.has(k, want):
		return want, sendAlone
	default:
		return want, send
	}
}

// fallBack is decide for a version that was refused alone. The proxy keeps its last good version,
// which is sent again if it isn't certain that the proxy has it, or if it asks.
func (rec *record) fallBack(want *resource) (*resource, action) {
	switch {
	case !rec.force && (!rec.doubtful || rec.isPending()):
		return nil, nothing
	case rec.lastAcked != nil && rec.lastAcked.known():
		return rec.lastAcked, sendAlone
	case rec.lastAcked == nil && rec.force:
		return want, sendAlone
	default:
		return nil, nothing
	}
}

// decideAbsent is decide for a name that isn't desired.
func (s *session) decideAbsent(k kind, name string, rec *record) (*resource, action) {
	rec.drainsUntil = time.Time{}
	if rec.isAlone() {
		rec.rejection = nil
	}
	switch {
	case rec.sent == nil:
		// The proxy has nothing, or may have it from a refused response. Only delta can say so.
		if s.mode == ModeStateOfTheWorld || rec.sentIn == 0 && !rec.force {
			return nil, nothing
		}
		return nil, remove
	case s.lingers(k, name):
		if rec.force && rec.sent.known() {
			return rec.sent, send
		}
		return nil, nothing
	case s.mode == ModeStateOfTheWorld && !s.lists(k):
		// There are no removals of these kinds; the client drops them by itself.
		return nil, nothing
	default:
		return nil, remove
	}
}

// emit makes one response of what was decided, notes it and appends it.
func (s *session) emit(k kind, sending []*resource, removed []string, alone string, out *output) {
	sub := &s.subs[k]
	first := sub.nonce == ""
	s.sent++
	number := s.sent
	for i, res := range sending {
		sub.note(res.name)
		sending[i] = s.dress(k, res)
		s.noteSent(k, sending[i], number)
	}
	for _, name := range removed {
		sub.note(name)
		s.noteRemoved(k, name, number)
	}
	if sub.apart && !first && len(sending) == 1 {
		alone = sending[0].name
	}
	if s.lists(k) {
		sending, removed = s.complete(k, number)
	}
	sub.mustReply, sub.nonce = false, strconv.FormatUint(number, 10)
	next := response{k, number, sub.nonce, sending, removed, alone}
	sub.pending, out.responses = append(sub.pending, next), append(out.responses, next)
}

// dress puts a resource into bytes that the proxy can't have seen in a refused response. Of a proxy
// that comes back nobody here knows what it refused before.
func (s *session) dress(k kind, res *resource) *resource {
	sub := &s.subs[k]
	rec := sub.records[res.name]
	isSuspect := rec.refusals > 0 || rec.answeredIn == 0 && s.returned && !sub.accepted
	if !sub.ignoresRepeats || !isSuspect {
		return res
	}
	return res.inOtherBytes(fmt.Sprintf("%s.%d", s.salt, rec.refusals))
}

// complete returns everything of a kind that the stream has, in order of name: what a response in
// state of the world must hold. What it leaves out is gone from the proxy with it, whatever is said
// of an earlier response; removed is what of that the proxy may use until then.
func (s *session) complete(k kind, number uint64) (all []*resource, removed []string) {
	all = make([]*resource, 0, len(s.subs[k].records))
	for name, rec := range s.subs[k].records {
		switch {
		case rec.sent == nil:
			rec.since = number
			if len(rec.maybeActive) > 0 {
				removed = append(removed, name)
			}
		case rec.sent.known():
			all = append(all, rec.sent)
		default:
		}
	}
	slices.SortFunc(all, byName)
	return all, removed
}

// byName orders resources.
func byName(a, b *resource) int { return cmp.Compare(a.name, b.name) }
