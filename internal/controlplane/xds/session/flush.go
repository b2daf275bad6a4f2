package session

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// action is what to do about one name.
type action int

const (
	nothing action = iota
	send
	sendAlone // in a response of its own, when all others are answered
	remove
	wait // none of these now, but decide again at the next step
)

// maxResources is how many resources a response contains at most, so that what a joining proxy is sent is marshalled in
// pieces.
const maxResources = 500

// Tick returns the responses that are due, in the order of make before break. Without a new request or snapshot, the
// next response is due at the time that NextTick returns.
func (s *Session) Tick(now time.Time) (out Output) {
	s.now, s.deadline = now, time.Time{}
	s.markExpired()
	for k := range Kind(KindCount) {
		for s.flushKind(k, &out) {
		}
	}
	s.scheduleRemovals()
	return out
}

// flushKind appends one response of a kind if one is due, and reports whether it did.
func (s *Session) flushKind(k Kind, out *Output) bool {
	sub := &s.subs[k]
	sub.mustDrain = sub.mustDrain && len(sub.pending) > 0
	if !sub.started || s.isWithheld(k) || !sub.canSend() {
		return false
	}
	if sub.retries.count() > 0 && !sub.lastWasRetry {
		if s.sendRetry(k, out) {
			return true
		}
		if sub.retries.count() > 0 {
			return false // The next one waits until all others are answered.
		}
	}
	sending, removed := s.collectDue(k)
	if len(sending) > 0 || len(removed) > 0 || sub.mustReply && sub.retries.count() == 0 {
		sub.lastWasRetry = false
		s.respond(k, sending, removed, "", out)
		return true
	}
	return s.sendRetry(k, out)
}

// canSend reports whether the pending responses allow another one. While a resource that was sent alone is pending,
// nothing else of the kind is sent, so that the answer is about this resource only. In state of the world Envoy may
// answer several responses at once.
func (sub *subscription) canSend() bool {
	isAlone := func(p Response) bool { return p.alone != "" }
	return len(sub.pending) < sub.maxPending && !sub.mustDrain && !slices.ContainsFunc(sub.pending, isAlone)
}

// isWithheld reports whether the first response of a kind is withheld for now.
func (s *Session) isWithheld(k Kind) bool {
	switch k {
	case ClusterKind:
		return s.withholdClusters()
	case ScopeKind:
		return s.withholdScopes()
	default:
		return false
	}
}

// collectDue takes what is due from the dirty names: as much as fits in a response, or one change of a one-by-one kind.
// The first scopes are sent together, because they make Envoy ready. A list is complete.
func (s *Session) collectDue(k Kind) (sending []*Resource, removed []string) {
	sub := &s.subs[k]
	single := sub.oneByOne && sub.nonce != ""
	isDivided := !sub.oneByOne && !s.sendsLists(k)
	var waiting []string
	isFull := func() bool {
		return single && (len(sending) > 0 || len(removed) > 0 && len(waiting) > 0) ||
			isDivided && len(sending) >= maxResources
	}
	for left := sub.dirty.count(); left > 0 && !isFull(); left-- {
		name, _ := sub.dirty.pop()
		if sub.retries.has(name) && s.desired(k, name) != nil {
			continue
		}
		sub.markChanged(name)
		switch res, todo := s.decide(k, name); {
		case todo == wait || todo == send && single && len(removed) > 0:
			waiting = append(waiting, name) // Removals are sent without a change that could be rejected.
		case todo == send:
			sending = append(sending, res)
		case todo == sendAlone:
			sub.retries.add(name)
		case todo == remove:
			removed = append(removed, name)
		default:
		}
	}
	if sub.oneByOne && len(sending) > 0 {
		waiting, removed = append(waiting, removed...), nil
	}
	for _, name := range waiting {
		sub.dirty.add(name)
	}
	slices.SortFunc(sending, byName)
	slices.Sort(removed)
	return sending, removed
}

// sendRetry sends the next of the resources that are sent alone, if all other responses are answered.
func (s *Session) sendRetry(k Kind, out *Output) bool {
	sub := &s.subs[k]
	for len(sub.pending) == 0 {
		name, ok := sub.retries.pop()
		if !ok {
			return false
		}
		sub.markChanged(name)
		switch res, todo := s.decide(k, name); todo {
		case send, sendAlone:
			sub.lastWasRetry = true
			s.respond(k, []*Resource{res}, nil, name, out)
			return true
		case wait, remove:
			sub.dirty.add(name)
		default:
		}
	}
	return false
}

// decide returns what to do about one name, and the version to send.
func (s *Session) decide(k Kind, name string) (*Resource, action) {
	rec, want := s.subs[k].records[name], s.desired(k, name)
	switch {
	case rec == nil:
		return nil, nothing // It is synced, or not subscribed.
	case want == nil:
		return s.decideUndesired(k, name, rec)
	case k == ClusterKind:
		delete(s.pendingRemoval, name)
	}
	if rec.isRejected() && rec.lastAcked.equals(want) {
		rec.rejection = nil // The last ACKed version is desired again.
	}
	switch {
	case !rec.needsSending(want):
		rec.withheldSince = time.Time{}
		return nil, nothing
	case rec.hasRejected(want):
		return rec.decideRejected(want)
	case !s.areClustersWarm(want):
		return nil, wait
	case k == EndpointKind && s.awaitsScopes(rec, want):
		return nil, wait
	case rec.uncertain || rec.isRejected() || s.fleetRejections.has(k, want):
		return want, sendAlone
	default:
		return want, send
	}
}

// decideRejected is decide for a version that was rejected alone. The proxy keeps its last good version. That version
// is sent again if it is uncertain that the proxy has it, or if the proxy requests it.
func (rec *record) decideRejected(want *Resource) (*Resource, action) {
	switch {
	case !rec.resend && (!rec.uncertain || rec.isPending()):
		return nil, nothing
	case rec.lastAcked != nil && rec.lastAcked.hasContent():
		return rec.lastAcked, sendAlone
	case rec.lastAcked == nil && rec.resend:
		return want, sendAlone
	default:
		return nil, nothing
	}
}

// decideUndesired is decide for a name that is not desired.
func (s *Session) decideUndesired(k Kind, name string, rec *record) (*Resource, action) {
	rec.withheldSince = time.Time{}
	if rec.isRejected() {
		rec.rejection = nil
	}
	switch {
	case rec.sent == nil:
		// The proxy does not have it, or may have it from a rejected response. Only delta can remove it then.
		if s.mode == ModeStateOfTheWorld || rec.sentNumber == 0 && !rec.resend {
			return nil, nothing
		}
		return nil, remove
	case k == SecretKind && s.withholdsSecrets && !rec.resend:
		return nil, nothing
	case s.isDraining(k, name):
		if rec.resend && rec.sent.hasContent() {
			return rec.sent, send
		}
		return nil, nothing
	case s.mode == ModeStateOfTheWorld && !s.sendsLists(k):
		// These kinds have no removals in state of the world: the client drops the resources itself.
		return nil, nothing
	default:
		return nil, remove
	}
}

// respond appends one response to out and records what it contains.
func (s *Session) respond(k Kind, sending []*Resource, removed []string, alone string, out *Output) {
	sub := &s.subs[k]
	isFirst := sub.nonce == ""
	s.lastNumber++
	number := s.lastNumber
	for i, res := range sending {
		sub.markChanged(res.name)
		sending[i] = s.saltSuspect(k, res).forTopology(s.topology)
		s.recordSent(k, sending[i], number)
	}
	for _, name := range removed {
		sub.markChanged(name)
		s.recordRemoved(k, name, number)
	}
	if sub.oneByOne && !isFirst && len(sending) == 1 {
		alone = sending[0].name
	}
	if s.sendsLists(k) {
		sending, removed = s.completeList(k, number)
	}
	sub.mustReply, sub.nonce = false, strconv.FormatUint(number, 10)
	next := Response{
		Kind: k, Nonce: sub.nonce, Resources: sending, Removed: removed, number: number, alone: alone,
	}
	sub.pending, out.Responses = append(sub.pending, next), append(out.Responses, next)
}

// saltSuspect returns the resource with a salt if the proxy may have received the same bytes in a rejected response.
// After a reconnect, earlier NACKs of the proxy are unknown.
func (s *Session) saltSuspect(k Kind, res *Resource) *Resource {
	sub := &s.subs[k]
	rec := sub.records[res.name]
	isSuspect := rec.nacksWithOthers > 0 || rec.answeredNumber == 0 && s.reconnected && !sub.hasAccepted
	if !sub.ignoresRepeated || !isSuspect {
		return res
	}
	return res.withSalt(fmt.Sprintf("%s.%d", s.salt, rec.nacksWithOthers))
}

// completeList returns all resources of a kind on the stream, in order of name: the content of a list in state of the
// world. The proxy removes what the list omits, whatever it answers to earlier lists. removed are omitted resources
// that the proxy may use until it receives the list.
func (s *Session) completeList(k Kind, number uint64) (all []*Resource, removed []string) {
	all = make([]*Resource, 0, len(s.subs[k].records))
	for name, rec := range s.subs[k].records {
		switch {
		case rec.sent == nil:
			rec.createdAfter = number
			if len(rec.maybeActive) > 0 {
				removed = append(removed, name)
			}
		case rec.sent.hasContent():
			all = append(all, rec.sent)
		default:
		}
	}
	slices.SortFunc(all, byName)
	return all, removed
}

// byName orders resources.
func byName(a, b *Resource) int { return cmp.Compare(a.name, b.name) }
