package xds

import (
	"maps"
	"slices"
	"time"
)

// refuse takes a NACK. Envoy may have dropped good resources beside the bad one,
// so none of the response counts as ACKed any more, and they are tried again in
// smaller groups until the culprit was refused alone.
func (s *session) refuse(k kind, f flight, message string) []string {
	sub := &s.subs[k]
	suspects := s.suspects(k, f)
	alone := len(suspects) == 1
	for _, res := range f.resources {
		sub.note(res.name)
		rec := sub.records[res.name]
		switch {
		case rec == nil:
			continue
		case s.lists(k) && rec.base != nil && rec.base.version == res.version:
			rec.doubt(f.number) // it stood in the list as before
		case alone && res.name == suspects[0] && k == routeKind:
			s.refuseTable(rec, res, f.number, message)
		case alone && res.name == suspects[0]:
			rec.refuse(res, f.number, message, true)
		default:
			rec.refuse(res, f.number, message, false)
		}
		sub.mark(res.name) // a good version may be due once more
	}
	s.removeAgain(k, f)
	if alone {
		sub.refused[suspects[0]] = struct{}{}
		s.withdraw(k, suspects)
		// The proxy has to confirm the list without the culprit.
		sub.owed = sub.owed || s.lists(k)
	}
	switch {
	case f.trial && k == routeKind && alone:
		// Its virtual hosts are looked at one by one: the table itself is no suspect.
		sub.isolation.passed()
	case f.trial:
		sub.isolation.failed()
	case len(suspects) > 1:
		sub.suspect(k, suspects)
	default:
	}
	return suspects
}

// lists tells whether each response of the kind is the list of all resources.
func (s *session) lists(k kind) bool { return s.mode == StateOfTheWorld && k.wildcard() }

// suspects returns the names of the resources for which a response may have been
// refused: those on trial, and of a list those that differ from what was ACKed.
func (s *session) suspects(k kind, f flight) []string {
	sub := &s.subs[k]
	if f.trial {
		return sub.isolation.trial
	}
	var names []string
	for _, res := range f.resources {
		rec := sub.records[res.name]
		if s.lists(k) && rec != nil && rec.base != nil && rec.base.version == res.version {
			continue
		}
		// One that isn't wanted any more can still have been the reason.
		names = append(names, res.name)
	}
	return names
}

// suspect has names tried in smaller groups, route configurations each alone:
// they are few, and what follows is about their virtual hosts.
func (sub *subscription) suspect(k kind, names []string) {
	if sub.isolation == nil {
		sub.isolation = &isolation{}
	}
	if k != routeKind {
		sub.isolation.suspect(names)
		return
	}
	for n := range names {
		sub.isolation.suspect(names[n : n+1 : n+1])
	}
}

// removeAgain repeats the removals of a response that was refused for something
// else in it. In a list a removal can't get lost.
func (s *session) removeAgain(k kind, f flight) {
	sub := &s.subs[k]
	if s.mode == StateOfTheWorld || len(f.resources) == 0 {
		return
	}
	for _, name := range f.removed {
		if s.world.resources[k][name] != nil || !sub.wants(name) {
			continue
		}
		if rec := sub.record(name, f.number); rec.sent == nil {
			rec.force = true
			sub.mark(name)
		}
	}
}

// isolate sends the next group of suspects of a kind. Nothing else of the kind is
// sent until all is found out, so that each verdict is about one group only: in
// state of the world Envoy may merge the answers to several responses into one.
func (s *session) isolate(now time.Time, k kind, out *output) {
	sub := &s.subs[k]
	for sub.isolation != nil && len(sub.flights) == 0 {
		s.withdraw(k, sub.isolation.untried())
		group := sub.isolation.next()
		if group == nil {
			s.giveUp(k)
			sub.isolation = nil
			return
		}
		sending := s.onTrial(now, k, group)
		if len(sending) == 0 {
			sub.isolation.skip()
			continue
		}
		sub.isolation.trial = namesOf(sending)
		s.emit(k, sending, nil, out)
		sub.flights[len(sub.flights)-1].trial = true
		return
	}
}

// withdraw takes what has to be tried, or was refused, off a list: what was good
// before stands in its place. If that is known to the proxy only it is lost.
func (s *session) withdraw(k kind, names []string) {
	if !s.lists(k) {
		return
	}
	for _, name := range names {
		rec := s.subs[k].records[name]
		if rec == nil || rec.inSync() {
			continue
		}
		s.subs[k].note(name)
		if rec.base != nil && !rec.base.known() {
			s.forgetEndpoints(rec, s.sent)
			rec.base, rec.acked, rec.warm = nil, nil, false
		}
		if k == clusterKind && rec.base != nil && rec.base != rec.sent {
			s.rewarm(rec.base.endpoints)
		}
		rec.sent = rec.base
	}
}

// giveUp counts what had no trial as refused, when an isolation has cost enough.
func (s *session) giveUp(k kind) {
	sub := &s.subs[k]
	for _, name := range sub.isolation.untried() {
		if rec := sub.records[name]; rec != nil && rec.refusal != nil {
			rec.refusal.alone = true
			sub.refused[name] = struct{}{}
		}
	}
}

// onTrial returns the resources of a group that still have something to prove.
func (s *session) onTrial(now time.Time, k kind, group []string) []*resource {
	sub := &s.subs[k]
	var sending []*resource
	for _, name := range group {
		rec, want := sub.records[name], s.world.resources[k][name]
		if rec == nil || want == nil || rec.inSync() && rec.acked.version == want.version {
			continue
		}
		if k == routeKind {
			rec.force = true
			sub.mark(name)
			res, todo := s.decideTable(now, rec, want)
			if todo != send && todo != sendAlone {
				continue
			}
			want = res
		} else {
			delete(sub.dirty, name)
		}
		sending = append(sending, want)
	}
	return sending
}

// refusals lists what is held back of a kind: what was refused alone in the
// version that the world has.
func (s *session) refusals(k kind, w *world) []Refusal {
	sub := &s.subs[k]
	if w == nil {
		return nil
	}
	var out []Refusal
	for _, name := range sorted(sub.refused) {
		rec := sub.records[name]
		if rec == nil || len(rec.hosts) == 0 && (rec.refusal == nil || !rec.refusal.alone) {
			delete(sub.refused, name)
			continue
		}
		want := w.resources[k][name]
		entry := Refusal{TypeURL: k.typeURL(), Resource: name}
		if rec.condemns(want) {
			entry.Message, entry.Retained = rec.refusal.message, rec.base != nil
			out = append(out, entry)
		}
		for _, host := range slices.Sorted(maps.Keys(rec.hosts)) {
			if desired := want.parts().find(host); desired != nil && desired.version == rec.hosts[host].version {
				entry.VirtualHost, entry.Message = host, rec.hosts[host].message
				entry.Retained = rec.base.parts().find(host) != nil
				out = append(out, entry)
			}
		}
	}
	return out
}

// namesOf lists the names of resources.
func namesOf(resources []*resource) []string {
	names := make([]string, 0, len(resources))
	for _, res := range resources {
		names = append(names, res.name)
	}
	return names
}
