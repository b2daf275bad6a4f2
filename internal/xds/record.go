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
	// candidate is an older version that is withheld, kept so that a world which
	// never stops to change doesn't hold all routes back for ever.
	candidate     *resource
	withheldSince time.Time
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
	if number <= rec.since || number < rec.ackedIn {
		return
	}
	rec.acked, rec.base, rec.ackedIn = r, r, number
	if rec.refusal != nil && rec.refusal.in < number {
		rec.refusal = nil
	}
	rec.held = slices.DeleteFunc(rec.held, func(h holding) bool { return h.in < number })
	rec.lost = rec.lost && rec.lostIn >= number
}

// refuse notes a NACK of the response that carried r. The proxy may have taken r
// all the same, if something beside it was the reason, so what it runs is unknown
// until its next ACK.
func (rec *record) refuse(r *resource, number uint64, message string) {
	if number <= rec.since || number < rec.ackedIn {
		return
	}
	rec.acked, rec.ackedIn = nil, number
	rec.refusal = &refusal{version: r.version, message: message, in: number}
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
	return rec.sent != nil && rec.acked != nil && rec.acked.version == rec.sent.version && rec.ackedIn == rec.sentIn
}
