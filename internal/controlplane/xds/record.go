package xds

import (
	"slices"
	"time"
)

// record is what one stream knows about one resource that is not settled, see session.isSettled; in
// state of the world about every one. Its states are drawn in the
// documentation of the package.
type record struct {
	// sent is what went out last; nil when nothing did, or its removal. After a NACK it is lastAcked.
	sent   *resource
	sentIn uint64 // number of the response that carried it; 0 when the proxy was sent nothing but a removal
	// lastAcked is the last version that was ACKed. A NACK doesn't take it back: the proxy then
	// keeps it or has something newer. Nil says that the proxy has none.
	lastAcked  *resource
	answeredIn uint64 // number of the last response that was answered
	// force asks for the resource once more though it didn't change.
	force bool
	// warm is true once the proxy could serve with the cluster. It stays so while a later version
	// warms or is refused, until the cluster is removed.
	warm bool
	// warming is true while a cluster waits for its endpoints, which were not sent behind it yet: Envoy
	// warms it until they come.
	warming bool
	// doubtful is true when a response was refused that carried the resource beside others: the
	// proxy may have taken it from there or not.
	doubtful bool
	// rejection is the last NACK of a response that carried the resource, while it matters.
	rejection *rejection
	// refusals counts the refused responses that carried the resource beside others.
	refusals int
	// drainsUntil is until when endpoints wait for routes because none of them serves any more; zero when
	// they don't.
	drainsUntil time.Time
	// since is the number of the last response before the record began: an answer to an older one
	// says nothing about it.
	since uint64
	// maybeActive are the versions of a scope that the proxy may be using, oldest first: the last
	// ACKed and all sent since. See session.setMaybeActive.
	maybeActive []activeVersion
}

// activeVersion is a version that a proxy may use, and the response that carried it.
type activeVersion struct {
	resource *resource
	in       uint64
}

// rejection is a NACK of a response that carried a resource.
type rejection struct {
	version version
	message string
	in      uint64
	// alone is true when the resource was the only one that could be the reason: this version is not
	// sent again.
	alone bool
}

// isPending tells whether the proxy has not yet answered what went out last.
func (rec *record) isPending() bool { return rec.sentIn > rec.answeredIn }

// isAlone tells whether the resource was refused alone.
func (rec *record) isAlone() bool { return rec.rejection != nil && rec.rejection.alone }

// rejects tells whether a version was refused alone.
func (rec *record) rejects(r *resource) bool {
	return r != nil && rec.isAlone() && rec.rejection.version == r.version
}

// inSync is true when what went out last is exactly what the proxy confirmed.
func (rec *record) inSync() bool {
	return rec.sent != nil && rec.lastAcked.is(rec.sent) && !rec.doubtful && !rec.isPending() &&
		rec.sent.version != version{}
}

// needs tells whether the desired version is to be sent. What the proxy brought is sent once more when it
// is desired later on: only then its content is known.
func (rec *record) needs(want *resource) bool {
	return rec.force || !rec.sent.is(want) || !rec.sent.known() || rec.doubtful && !rec.isPending()
}

// accept notes an ACK of the response that carried r, and returns false when it is too old to
// matter.
func (rec *record) accept(r *resource, number uint64) bool {
	if number <= rec.since || number < rec.answeredIn {
		return false
	}
	// To have the last good version back doesn't redeem what was refused.
	isBack := rec.isAlone() && rec.lastAcked.is(r)
	if rec.rejection != nil && rec.rejection.in < number && !isBack {
		rec.rejection = nil
	}
	rec.lastAcked, rec.answeredIn, rec.doubtful = r, number, false
	if rec.sentIn <= number {
		rec.sent = r // After a NACK of an earlier list it was lastAcked.
	}
	return true
}

// refuse notes a NACK of the response that carried r, and returns false when it is too old to
// matter. With alone nothing else can have been the reason, so the proxy keeps what it had.
// Otherwise it may have taken r all the same.
func (rec *record) refuse(r *resource, number uint64, message string, alone bool) bool {
	if number <= rec.since || number < rec.answeredIn {
		return false
	}
	// What was refused in company says nothing about what was refused alone.
	if alone || !rec.isAlone() {
		rec.rejection = &rejection{version: r.version, message: message, in: number, alone: alone}
	}
	rec.answeredIn = number
	if !alone {
		rec.doubtful = true
		rec.refusals++
	}
	if rec.sentIn <= number { // It may have gone out before, and have stood in this list again.
		rec.sent = rec.lastAcked
	}
	return true
}

// laterThan are the versions that went out after the response of a number.
func (rec *record) laterThan(number uint64) []activeVersion {
	return rec.without(func(v activeVersion) bool { return v.in <= number })
}

// without are the versions but for some.
func (rec *record) without(some func(activeVersion) bool) []activeVersion {
	return slices.DeleteFunc(slices.Clone(rec.maybeActive), some)
}

// mayUseOther tells whether the proxy may use a version that sends requests to the cluster, and
// that is to be replaced by the one that is desired, nil for none.
func (rec *record) mayUseOther(cluster string, want *resource) bool {
	if rec.rejects(want) {
		return false
	}
	return slices.ContainsFunc(rec.maybeActive, func(v activeVersion) bool {
		return (want == nil || v.resource.version != want.version) && v.resource.refersTo(cluster)
	})
}
