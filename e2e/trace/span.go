package trace

import "time"

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
