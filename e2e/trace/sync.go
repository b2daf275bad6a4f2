package trace

import (
	"fmt"
	"slices"
	"time"
)

// Answer is what came of the router in a Sync.
type Answer int

// The answers.
const (
	// Unasked: the controller didn't come to its router, or not back from it.
	NotCalled Answer = iota
	// Failed: the router could not be started, or answered with an error.
	Failed
	// Unverified: the router took the weight, and didn't find it in force.
	Unverified
	// Verified: the router took the weight, and found it in force.
	Verified
)

// String implements fmt.Stringer.
func (a Answer) String() string {
	return [...]string{"without its router", "failed", "not verified", "verified"}[a]
}

// Sync is one reconciliation of a Rollout by the controller. There is never more
// than one of the same Rollout at a time.
type Sync struct {
	// Began and Ended bound it. Ended is zero while it lasts, and if the
	// controller died in it.
	Began, Ended time.Time
	// Version is the resourceVersion of the Rollout that the controller works on.
	Version int64
	// Started says that the router was started in it.
	Started bool
	// Answer is what came of the router, Answered when.
	Answer   Answer
	Answered time.Time
	// Failure is what the controller says of why it ended early, "" if it didn't.
	Failure string
}

// isRouterCall says whether the controller came to its router, or had no reason not to.
func (s Sync) isRouterCall() bool { return s.Answer != NotCalled || s.Failure == "" }

// Describe describes a sync, with the times since a moment.
func (s Sync) Describe(moment time.Time) string {
	text := fmt.Sprintf("%s from %+.3f s", s.Answer, s.Began.Sub(moment).Seconds())
	if s.Started {
		text = "router started, " + text
	}
	if s.Answer != NotCalled {
		text += fmt.Sprintf(", answered %+.3f s", s.Answered.Sub(moment).Seconds())
	}
	if s.Ended.IsZero() {
		return text + ", no end"
	}
	text += fmt.Sprintf(", ended %+.3f s", s.Ended.Sub(moment).Seconds())
	if s.Failure != "" {
		text += ": " + s.Failure
	}
	return text
}

// FirstCall is the first of the syncs that works on a version of the Rollout or a
// later one, and in which the controller doesn't fail by itself before it comes to
// its router, as it does for seconds while some of what it has read is old: from then
// on it asks for what that version says.
func FirstCall(syncs []Sync, version int64) (Sync, bool) {
	for _, s := range syncs {
		if s.Version >= version && s.isRouterCall() {
			return s, true
		}
	}
	return Sync{}, false
}

// FirstVerified is the first of the syncs, beginning after a moment, that its router
// has verified. If anew, it is the first one from that on in which the router was
// started after that moment: it may have begun right before.
func FirstVerified(syncs []Sync, after time.Time, restarted bool) (Sync, bool) {
	for _, s := range syncs {
		began := s.Began.After(after)
		if restarted {
			began = s.Started && (s.Ended.IsZero() || s.Ended.After(after))
			restarted = !began
		}
		if began && s.Answer == Verified {
			return s, true
		}
	}
	return Sync{}, false
}

// HasRouterCall says whether the controller has come to its router in a sync that began
// after a moment.
func HasRouterCall(syncs []Sync, after time.Time) bool {
	return slices.ContainsFunc(syncs, func(s Sync) bool { return s.Began.After(after) && s.Answer != NotCalled })
}

// Idle is how much of a span is the controller's own: it waits, for an API
// server, its leadership or the next event, or works without its router. The
// router's are the syncs that came to it, and what the controller waits before it
// comes again because the router failed, or didn't find the weight in force
// although it had been since inForce.
func Idle(syncs []Sync, span Span, active time.Time) time.Duration {
	idle := max(0, span.Length())
	for i, s := range syncs {
		if s.Answer == NotCalled {
			continue
		}
		until := s.Ended
		if until.IsZero() {
			until = s.Answered
		}
		if s.Answer == Failed || s.Answer == Unverified && s.Answered.After(active) {
			until = span.To
			if i+1 < len(syncs) {
				until = syncs[i+1].Began
			}
		}
		idle -= overlap(span, Span{s.Began, until})
	}
	return idle
}
