package xds

import (
	"slices"
	"time"
)

// draft is a table as it could be sent to one proxy now.
type draft struct {
	frame *part
	hosts []*part
	// fresh counts the parts that differ from those sent last.
	fresh int
	// unserved is true when a virtual host needs a cluster that isn't warm, and
	// waiting when such a cluster can be expected to become so.
	unserved, waiting bool
	// again are the parts that were refused in another version.
	again []string
}

// decideTable tells what is to be done about a route configuration. A virtual
// host goes out once the proxy can serve every cluster that it names, and not in
// a version that was refused; until then it stands as it was sent last, and those
// that are new are left out. So one doesn't hold up the others.
func (s *session) decideTable(now time.Time, rec *record, want *resource) (*resource, action) {
	if rec.sent != nil && rec.sent.version == want.version {
		rec.recognise(want)
	}
	rec.forgetHosts(want.table)
	if rec.isolation != nil && !rec.trying && s.isDoubted(rec, want) {
		rec.isolation = nil // It is begun anew on what is good.
	}
	switch {
	case rec.isolation != nil:
		return s.tryParts(now, rec, want)
	case rec.sent == want && !rec.force:
		return nil, rec.recheck(want)
	}
	d := s.draft(rec, want, nil)
	if len(d.again) > 0 && (rec.sent.parts() != nil || d.fresh == 0) && (!s.isDoubted(rec, want) || !s.maySend(now, rec, want, d)) {
		for _, name := range d.again {
			rec.suspect([]string{name})
		}
		return s.tryParts(now, rec, want)
	}
	switch {
	case s.maySend(now, rec, want, d):
		return d.resource(want), send
	case d.unserved || len(d.again) > 0:
		return nil, wait
	default:
		return nil, nothing
	}
}

// isDoubted tells whether what was sent last was refused in company, so that it may hold parts that the proxy refuses. It has to be tried itself before a part
// that is added to it: the refusal would be blamed on that part.
func (s *session) isDoubted(rec *record, want *resource) bool {
	return rec.sent != nil && (rec.base == nil || rec.base.version != rec.sent.version) && !s.inFlight(routeKind, want.name)
}

// recheck is decideTable for a route configuration that was sent last.
func (rec *record) recheck(want *resource) action {
	if rec.isOpen(want) {
		return try
	}
	if rec.inSync() {
		rec.refusal = nil
	}
	return nothing
}

// maySend tells whether a draft has something to say and may say it. One without
// virtual hosts is sent only if that is what is desired.
func (s *session) maySend(now time.Time, rec *record, want *resource, d draft) bool {
	if len(d.hosts) == 0 && len(want.table.hosts) > 0 {
		return false
	}
	if rec.sent.parts() == nil {
		return s.mayBegin(now, rec, d)
	}
	return rec.force || d.fresh > 0 || len(d.hosts) != len(rec.sent.table.hosts)
}

// mayBegin tells whether a draft may be the first table of the stream. A fresh
// proxy is better off with all of it, and gets it in parts only after a while. A
// proxy that came with a table of which the content is unknown keeps that: what
// were left out could be what it serves now.
func (s *session) mayBegin(now time.Time, rec *record, d draft) bool {
	if !d.waiting {
		return true
	}
	if rec.sent != nil {
		return false
	}
	if rec.waitingSince.IsZero() {
		rec.waitingSince = now
	}
	end := rec.waitingSince.Add(patience)
	if now.Before(end) {
		s.alarm = earlier(s.alarm, end)
		return false
	}
	return true
}

// draft puts a table together. With trial, only the parts of these names, which
// are sorted, may differ from what was sent last.
func (s *session) draft(rec *record, want *resource, trial []string) draft {
	old := rec.sent.parts()
	d := draft{frame: want.table.frame, hosts: make([]*part, 0, len(want.table.hosts))}
	if old != nil {
		d.frame = s.choose(rec, want.table.frame, old.frame, trial, &d)
	}
	next := 0
	for _, host := range want.table.hosts {
		var before *part
		if old != nil {
			for next < len(old.hosts) && old.hosts[next].name < host.name {
				next++
			}
			if next < len(old.hosts) && old.hosts[next].name == host.name {
				before = old.hosts[next]
			}
		}
		if chosen := s.choose(rec, host, before, trial, &d); chosen != nil {
			d.hosts = append(d.hosts, chosen)
		}
	}
	return d
}

// choose returns the form of a part that can go out now: the desired one, or the
// one before, which is nil if there is none.
func (s *session) choose(rec *record, want, before *part, trial []string, d *draft) *part {
	if before != nil && before.version == want.version {
		return before
	}
	refused, isRefused := rec.hosts[want.name]
	switch {
	case trial != nil:
		if _, tried := slices.BinarySearch(trial, want.name); tried && s.serves(want) {
			d.fresh++
			return want
		}
	case isRefused && refused.version == want.version:
	case !s.serves(want):
		d.unserved = true
		d.waiting = d.waiting || !s.hopeless(want)
	case isRefused:
		d.again = append(d.again, want.name)
	default:
		d.fresh++
		return want
	}
	return before
}

// resource makes a resource of a draft: the desired one if it is the same.
func (d draft) resource(want *resource) *resource {
	same := d.frame.version == want.table.frame.version && len(d.hosts) == len(want.table.hosts)
	for i := 0; same && i < len(d.hosts); i++ {
		same = d.hosts[i].version == want.table.hosts[i].version
	}
	if same {
		return want
	}
	return newTableResource(want.name, makeTable(d.frame, d.hosts))
}

// tryParts finds out which parts of a table are refused: they are added to the
// last good table one group at a time.
func (s *session) tryParts(now time.Time, rec *record, want *resource) (*resource, action) {
	if rec.trying || s.inFlight(routeKind, want.name) {
		return nil, wait
	}
	for {
		group := rec.isolation.next()
		if group == nil {
			rec.giveUp(want.table)
			rec.isolation = nil
			return s.decideTable(now, rec, want)
		}
		if d := s.draft(rec, want, group); d.fresh > 0 {
			rec.trying = true
			return d.resource(want), sendAlone
		}
		rec.isolation.skip()
	}
}

// refuseTable takes the NACK of a table that was alone in its response. Unless
// only one part of it can be the reason, the parts that changed are tried one
// group at a time.
func (s *session) refuseTable(rec *record, res *resource, number uint64, message string) {
	latest := rec.sentIn == number
	if !rec.refuse(res, number, message, true) {
		return
	}
	rec.refusal.alone = false // it's about the parts
	if rec.trying {
		rec.trying = false
		if group := rec.isolation.trial; len(group) == 1 {
			rec.refuseHost(res.table, group[0], message, number)
		}
		rec.isolation.failed()
		return
	}
	if !latest {
		return // a later one is under way and will tell
	}
	switch names := res.table.differences(rec.base.parts()); len(names) {
	case 0:
	case 1:
		rec.refuseHost(res.table, names[0], message, number)
	default:
		rec.suspect(names)
	}
}

// inFlight tells whether a response with the resource waits for its answer.
func (s *session) inFlight(k kind, name string) bool {
	for _, f := range s.subs[k].flights {
		for _, res := range f.resources {
			if res.name == name {
				return true
			}
		}
	}
	return false
}

// serves tells whether the proxy can serve every cluster that the part names.
func (s *session) serves(p *part) bool {
	return !slices.ContainsFunc(p.clusters, func(name string) bool { return !s.isWarm(name) })
}

// isWarm tells whether the proxy can serve the cluster: it has ACKed it and, if
// it gets them by EDS, its endpoints.
func (s *session) isWarm(cluster string) bool {
	rec := s.subs[clusterKind].records[cluster]
	switch {
	case rec == nil:
		return false
	case rec.warm:
		return true
	case rec.base == nil:
		return false
	}
	if needs := rec.base.endpointsName(); needs != "" {
		if endpoints := s.subs[endpointKind].records[needs]; endpoints == nil || endpoints.base == nil {
			return false
		}
	}
	rec.warm = true
	return true
}

// hopeless tells whether the part needs a cluster that the proxy can't serve and
// refuses, or of which it refuses the endpoints, so that waiting is in vain.
func (s *session) hopeless(p *part) bool {
	return slices.ContainsFunc(p.clusters, func(name string) bool {
		want := s.world.resources[clusterKind][name]
		return want != nil && !s.isWarm(name) && (s.isCondemned(clusterKind, name) || s.isCondemned(endpointKind, want.endpoints))
	})
}

// isCondemned tells whether a resource was refused alone as it is desired.
func (s *session) isCondemned(k kind, name string) bool {
	rec := s.subs[k].records[name]
	return rec != nil && rec.condemns(s.world.resources[k][name])
}
