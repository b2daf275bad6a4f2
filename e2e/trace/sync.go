package trace

import (
	"fmt"
	"slices"
	"time"
)

// Answer is the result of the router call in a Sync.
type Answer int

// The answers.
const (
	// NotCalled: the controller did not call its router, or the call did not return.
	NotCalled Answer = iota
	// Failed: the router did not start, or returned an error.
	Failed
	// Unverified: the router set the weight, and the weight was not active yet.
	Unverified
	// Verified: the router set the weight, and the weight was active.
	Verified
)

// String implements fmt.Stringer.
func (a Answer) String() string {
	return [...]string{"without its router", "failed", "not verified", "verified"}[a]
}

// Sync is one reconciliation of a Rollout by the controller. Reconciliations of the same Rollout do not overlap.
type Sync struct {
	// Began and Ended are its bounds. Ended is zero during the reconciliation, and if the controller terminated during it.
	Began, Ended time.Time
	// Version is the resourceVersion of the reconciled Rollout.
	Version int64
	// Started is true if the router process was started during the sync.
	Started bool
	// Answer is the result of the router call, Answered its time.
	Answer   Answer
	Answered time.Time
	// Failure is the controller's error; empty if there was none.
	Failure string
}

// isRouterCall reports whether the controller called its router, or had no error that prevented the call.
func (s Sync) isRouterCall() bool { return s.Answer != NotCalled || s.Failure == "" }

// Describe describes a sync, with times relative to a moment.
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

// FirstCall returns the first sync of a version of the Rollout or a later one that did not fail before the router call.
// Such failures last for seconds while the controller's cache is outdated. From the returned sync on, the controller
// requests the weight of that version.
func FirstCall(syncs []Sync, version int64) (Sync, bool) {
	for _, s := range syncs {
		if s.Version >= version && s.isRouterCall() {
			return s, true
		}
	}
	return Sync{}, false
}

// FirstVerified returns the first sync that began after a moment and whose router call was verified. If restarted is
// true, it starts at the first sync in which the router was started after that moment. That sync may have begun shortly
// before the moment.
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

// HasRouterCall reports whether the controller called its router in a sync that began after a moment.
func HasRouterCall(syncs []Sync, after time.Time) bool {
	return slices.ContainsFunc(syncs, func(s Sync) bool { return s.Began.After(after) && s.Answer != NotCalled })
}

// Idle returns the part of a span that the controller spent without its router: it waited for the API server, its
// leadership or the next event, or worked on its own. The router's part are the syncs with a router call, and the delay
// until the next sync if the call failed. A weight that was not verified although it had been active counts as a
// failure, too.
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
