package trace

import "time"

// Span is a time interval.
type Span struct{ From, To time.Time }

// Length returns the duration, negative if the span ends before it begins.
func (s Span) Length() time.Duration { return s.To.Sub(s.From) }

// overlap returns how long two spans overlap.
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
