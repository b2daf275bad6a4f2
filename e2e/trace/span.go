package trace

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/load"
)

// Span is a stretch of time.
type Span struct{ From, To time.Time }

// Length is how long it is, negative if it ends before it begins.
func (s Span) Length() time.Duration { return s.To.Sub(s.From) }

// overlap is how long two spans have in common.
func overlap(a, b Span) time.Duration {
	from, to := a.From, a.To
	if b.From.After(from) {
		from = b.From
	}
	if b.To.Before(to) {
		to = b.To
	}
	return max(0, to.Sub(from))
}

// Within says whether a span has time in common with any of others.
func (s Span) Within(others []Span) bool {
	for _, other := range others {
		if overlap(s, other) > 0 {
			return true
		}
	}
	return false
}

// Late are the times in which a request was due and the load client didn't come
// to start it, for longer than that.
func Late(results []load.Result, by time.Duration) []Span {
	var late []Span
	for _, r := range results {
		if r.Lag > by {
			late = append(late, Span{From: r.Due, To: r.Due.Add(r.Lag)})
		}
	}
	return late
}
