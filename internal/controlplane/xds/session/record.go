package session

import (
	"slices"
	"time"
)

// record is the state of one resource on one stream. In delta a synced resource has no record, see Session.isSynced.
// The documentation of the package draws the states.
type record struct {
	// sent is the version that was sent last; nil for none, or after a removal. After a NACK it is lastAcked.
	sent       *Resource
	sentNumber uint64 // number of the response that contained it; 0 if nothing but a removal was sent
	// lastAcked is the last version that was ACKed; nil if the proxy has none. A NACK does not reset it: the proxy
	// keeps it, or has something newer.
	lastAcked      *Resource
	answeredNumber uint64 // number of the last response that was answered
	// resend requests the resource to be sent again although it did not change.
	resend bool
	// warm is true once the proxy can serve with the cluster. It stays true while a later version warms or is rejected,
	// until the cluster is removed.
	warm bool
	// warming is true from when a cluster was sent until its endpoints are sent after it: Envoy warms it until then.
	warming bool
	// uncertain is true after a NACK of a response that also contained other resources: whether the proxy uses the
	// version in it is unknown.
	uncertain bool
	// rejection is the last NACK of a response that contained the resource, nil once it is irrelevant.
	rejection *rejection
	// nacksWithOthers counts the rejected responses that contained the resource with others.
	nacksWithOthers int
	// withheldSince is since when endpoints wait for scopes, see Session.awaitsScopes; zero if they do not wait.
	withheldSince time.Time
	// createdAfter is the number of the last response before the record was created. Answers to responses up to it are
	// ignored.
	createdAfter uint64
	// maybeActive are the versions of a scope that the proxy may be using, oldest first: the last ACKed one and all
	// that were sent since. See Session.setMaybeActive.
	maybeActive []activeVersion
}

// activeVersion is a version that a proxy may be using, and the number of the response that contained it.
type activeVersion struct {
	resource *Resource
	number   uint64
}

// rejection is a NACK of a response that contained a resource.
type rejection struct {
	version version
	message string
	number  uint64 // of the response
	// alone is true if no other resource can be the reason. This version is not sent again.
	alone bool
}

// isPending reports whether the proxy has not yet answered what was sent last.
func (rec *record) isPending() bool { return rec.sentNumber > rec.answeredNumber }

// isRejected reports whether the resource was rejected alone.
func (rec *record) isRejected() bool { return rec.rejection != nil && rec.rejection.alone }

// hasRejected reports whether the proxy rejected this version alone.
func (rec *record) hasRejected(r *Resource) bool {
	return r != nil && rec.isRejected() && rec.rejection.version == r.version
}

// isSynced reports whether the proxy ACKed exactly what was sent last.
func (rec *record) isSynced() bool {
	return rec.sent != nil && rec.lastAcked.equals(rec.sent) && !rec.uncertain && !rec.isPending() &&
		rec.sent.version != version{}
}

// needsSending reports whether the desired version must be sent. A version that a reconnecting proxy has is sent again
// once it is desired, because only then its content is known.
func (rec *record) needsSending(want *Resource) bool {
	return rec.resend || !rec.sent.equals(want) || !rec.sent.hasContent() || rec.uncertain && !rec.isPending()
}

// ack records an ACK of the response that contained r. It returns false if the response is too old to matter.
func (rec *record) ack(r *Resource, number uint64) bool {
	if number <= rec.createdAfter || number < rec.answeredNumber {
		return false
	}
	// The ACK of the previous good version does not revoke the rejection of a later one.
	isPreviousVersion := rec.isRejected() && rec.lastAcked.equals(r)
	if rec.rejection != nil && rec.rejection.number < number && !isPreviousVersion {
		rec.rejection = nil
	}
	rec.lastAcked, rec.answeredNumber, rec.uncertain = r, number, false
	if rec.sentNumber <= number {
		rec.sent = r // After a NACK of an earlier list it was lastAcked.
	}
	return true
}

// nack records a NACK of the response that contained r. It returns false if the response is too old to matter. If r was
// sent alone, it is the reason of the NACK and the proxy keeps the version that it had. Otherwise the proxy may
// nevertheless use r.
func (rec *record) nack(r *Resource, number uint64, message string, alone bool) bool {
	if number <= rec.createdAfter || number < rec.answeredNumber {
		return false
	}
	// A NACK of several resources does not replace the NACK of this one.
	if alone || !rec.isRejected() {
		rec.rejection = &rejection{version: r.version, message: message, number: number, alone: alone}
	}
	rec.answeredNumber = number
	if !alone {
		rec.uncertain = true
		rec.nacksWithOthers++
	}
	if rec.sentNumber <= number { // It may have been sent earlier and be repeated in this list.
		rec.sent = rec.lastAcked
	}
	return true
}

// activeAfter returns the versions that were sent after the response of a number.
func (rec *record) activeAfter(number uint64) []activeVersion {
	return rec.activeWithout(func(v activeVersion) bool { return v.number <= number })
}

// activeWithout returns the versions for which omit is false.
func (rec *record) activeWithout(omit func(activeVersion) bool) []activeVersion {
	return slices.DeleteFunc(slices.Clone(rec.maybeActive), omit)
}

// mayUseOther reports whether the proxy may use a version with routes to the cluster that is not the desired one. It
// takes nil for a scope that is no longer desired.
func (rec *record) mayUseOther(cluster string, want *Resource) bool {
	if rec.hasRejected(want) {
		return false
	}
	return slices.ContainsFunc(rec.maybeActive, func(v activeVersion) bool {
		return (want == nil || v.resource.version != want.version) && v.resource.refersTo(cluster)
	})
}
