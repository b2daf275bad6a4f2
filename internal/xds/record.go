package xds

import (
	"slices"
	"time"
)

// heldLimit is how many unsettled versions of one route configuration are kept
// apart. Beyond it the record only knows that it lost count.
const heldLimit = 8

// record is what one stream knows about one resource. It exists for every name
// that the proxy subscribed to, and for every resource sent under a wildcard.
type record struct {
	// sent is what went out last; nil when nothing did, or its removal.
	sent   *resource
	sentIn uint64 // number of the response that carried it
	// acked is what the proxy last confirmed; nil when a NACK took that back.
	acked   *resource
	ackedIn uint64
	refusal *refusal
	// base is the last version that was ACKed; a later NACK doesn't take it back,
	// for the proxy then keeps it or has something newer. Nil says that the proxy
	// has none.
	base *resource
	// warm is true once the proxy could serve with the cluster. It stays so while a
	// later version warms or is refused, until the cluster is removed.
	warm bool
	// since is the number of the last response before the record began: an answer
	// to an older one says nothing about it.
	since uint64
	// absent is true when the proxy was told that the resource doesn't exist.
	absent bool
	// force asks for the resource once more though it didn't change.
	force bool

	// held are the versions of a route configuration that the proxy may be using:
	// the last ACKed and all sent since, oldest first. Kept for routes only.
	held []holding
	// lost is true when there were more versions than fit into held, the newest of
	// those in response lostIn.
	lost   bool
	lostIn uint64
	// waitingSince is when the first route configuration could have gone out in
	// part.
	waitingSince time.Time

	// hosts are the parts of a route configuration that were refused alone, by name.
	// They are forgotten when the desired version is accepted, whichever it is then,
	// and when none is desired.
	hosts map[string]refusal
	// isolation finds out which parts of a route configuration are refused; nil
	// unless there is something to find out. With trying, a trial is under way.
	isolation *isolation
	trying    bool
}

// holding is a version that a proxy may use, and the response that carried it.
type holding struct {
	resource *resource
	in       uint64
}

// refusal is the last NACK of a response that carried a resource.
type refusal struct {
	version string
	message string
	in      uint64
	// alone is true when the resource was the only one that could be the reason:
	// this version is not sent again.
	alone bool
}

// send notes that r goes out in the response of the given number.
func (rec *record) send(r *resource, number uint64, hold bool) {
	rec.sent, rec.sentIn = r, number
	rec.force, rec.absent = false, false
	if hold {
		rec.hold(r, number)
	}
}

// hold notes that the proxy may use r from now on, beside what it used before.
func (rec *record) hold(r *resource, number uint64) {
	rec.held = append(rec.held, holding{r, number})
	if len(rec.held) > heldLimit {
		rec.lost, rec.lostIn = true, rec.held[0].in
		rec.held = slices.Delete(rec.held, 0, 1)
	}
}

// assume notes what a reconnecting proxy says it has already.
func (rec *record) assume(r *resource, hold bool) {
	rec.sent, rec.acked, rec.base, rec.force = r, r, r, false
	if hold {
		rec.held = []holding{{r, rec.sentIn}}
	}
}

// recognise puts a known resource in the place of the equal version that the
// proxy brought along.
func (rec *record) recognise(r *resource) {
	old := rec.sent
	if old.known() {
		return
	}
	rec.sent = r
	if rec.acked == old {
		rec.acked = r
	}
	if rec.base == old {
		rec.base = r
	}
	for i := range rec.held {
		if rec.held[i].resource == old {
			rec.held[i].resource = r
		}
	}
}

// accept notes an ACK of the response that carried r.
func (rec *record) accept(r *resource, number uint64) {
	if rec.trying && number == rec.sentIn {
		rec.trying = false
		rec.isolation.passed()
	}
	if number <= rec.since || number < rec.ackedIn {
		return
	}
	// To have the last good version back doesn't redeem what was refused.
	retained := rec.base != nil && rec.base.version == r.version
	if rec.refusal != nil && rec.refusal.in < number && (!rec.refusal.alone || !retained) {
		rec.refusal = nil
	}
	rec.acked, rec.base, rec.ackedIn = r, r, number
	rec.held = slices.DeleteFunc(rec.held, func(h holding) bool { return h.in < number })
	rec.lost = rec.lost && rec.lostIn >= number
}

// refuse notes a NACK of the response that carried r, and returns false when it
// is too old to matter. What the proxy runs is unknown until its next ACK: it may
// have taken r all the same, if something beside it was the reason. With alone
// nothing else can have been, so the proxy keeps what it had.
func (rec *record) refuse(r *resource, number uint64, message string, alone bool) bool {
	before := rec.acked
	if !rec.doubt(number) {
		return false
	}
	// What was refused in company says nothing about what was refused alone.
	if alone || rec.refusal == nil || !rec.refusal.alone {
		rec.refusal = &refusal{version: r.version, message: message, in: number, alone: alone}
	}
	if !alone {
		return true
	}
	rec.held = slices.DeleteFunc(rec.held, func(h holding) bool { return h.in == number })
	rec.acked = before
	if rec.sentIn == number {
		rec.sent = rec.base
		// After an earlier refusal in company it isn't certain what the proxy has.
		rec.force = before == nil && rec.base != nil
	}
	return true
}

// doubt takes back the ACK for a response that was refused, and returns false when
// that is too old to matter.
func (rec *record) doubt(number uint64) bool {
	if number <= rec.since || number < rec.ackedIn {
		return false
	}
	rec.acked, rec.ackedIn = nil, number
	return true
}

// condemns tells whether a version was refused alone, so that it must not be sent
// again.
func (rec *record) condemns(r *resource) bool {
	return r != nil && rec.refusal != nil && rec.refusal.alone && rec.refusal.version == r.version
}

// isOpen tells whether a version was sent and refused in company, and never tried
// on its own: it had left the world when its turn came.
func (rec *record) isOpen(r *resource) bool {
	return rec.refusal != nil && rec.refusal.in == rec.sentIn && rec.sent != nil && rec.sent.version == r.version && !rec.inSync()
}

// suspect has parts of a route configuration tried in smaller groups.
func (rec *record) suspect(names []string) {
	if rec.isolation == nil {
		rec.isolation = &isolation{}
	}
	rec.isolation.suspect(names)
}

// refuseHost notes that a part of the table was refused alone.
func (rec *record) refuseHost(t *table, name, message string, number uint64) {
	p := t.find(name)
	if p == nil {
		return
	}
	if rec.hosts == nil {
		rec.hosts = map[string]refusal{}
	}
	rec.hosts[name] = refusal{version: p.version, message: message, in: number, alone: true}
}

// forgetHosts drops what is known of refused parts that are no longer desired, or
// accepted.
func (rec *record) forgetHosts(want *table) {
	for name := range rec.hosts {
		desired, has := want.find(name), rec.base.parts().find(name)
		if desired == nil || has != nil && has.version == desired.version {
			delete(rec.hosts, name)
		}
	}
}

// giveUp counts the parts that had no trial as refused, when an isolation has
// cost enough.
func (rec *record) giveUp(t *table) {
	if rec.refusal == nil {
		return
	}
	for _, name := range rec.isolation.untried() {
		rec.refuseHost(t, name, rec.refusal.message, rec.refusal.in)
	}
}

// forget notes that the proxy no longer has the resource. Responses up to the
// given number are history.
func (rec *record) forget(number uint64) {
	*rec = record{since: number, absent: true}
}

// mayUse tells whether the proxy may hold a version of this route configuration
// that sends requests to the cluster.
func (rec *record) mayUse(cluster string) bool {
	return rec.lost || slices.ContainsFunc(rec.held, func(h holding) bool { return h.resource.refersTo(cluster) })
}

// inSync is true when what went out last is exactly what the proxy confirmed.
func (rec *record) inSync() bool {
	return rec.sent != nil && rec.acked != nil && rec.acked.version == rec.sent.version && rec.ackedIn == rec.sentIn && rec.acked.version != ""
}
