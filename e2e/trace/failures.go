package trace

import (
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// Outage is the death of a proxy.
type Outage struct {
	// Signaled is when it was told to die, Gone when it was seen to have, Back when
	// its successor was said to be ready; zero if it was not.
	Signaled, Gone, Back time.Time
}

// Tally counts what became of requests to one proxy.
type Tally struct {
	// Sent counts those that were sent and have ended.
	Sent int
	// Lost counts the failed ones that died with the proxy: no living one had
	// them.
	Lost int
	// Failed counts the failed ones that a living proxy could have served.
	Failed int
	// Reasons counts Failed by load.Reason.
	Reasons map[string]int
	// Unanswered are the times in which those of Failed had no answer that failed
	// for want of time alone (load.Unanswered).
	Unanswered []Span
	// Slowest is the longest time that a good answer took of a proxy that lived
	// all the while.
	Slowest time.Duration
	// First and Last are when the first and the last of Failed were due.
	First, Last time.Time
	// Examples are the first few of Failed that were sent.
	Examples []load.Result
}

// maxExamples bounds Tally.Examples.
const maxExamples = 5

// Add adds another tally.
func (t *Tally) Add(other Tally) {
	t.Sent += other.Sent
	t.Lost += other.Lost
	t.Failed += other.Failed
	t.Slowest = max(t.Slowest, other.Slowest)
	t.Unanswered = append(t.Unanswered, other.Unanswered...)
	if other.Failed > 0 {
		t.addFailure(other.First)
		t.addFailure(other.Last)
		t.Examples = append(t.Examples, other.Examples...)
	}
	for reason, n := range other.Reasons {
		if t.Reasons == nil {
			t.Reasons = map[string]int{}
		}
		t.Reasons[reason] += n
	}
}

// Describe describes the failed requests, with the times since a moment.
func (t *Tally) Describe(moment time.Time, timeout time.Duration) []string {
	if t.Failed == 0 {
		return nil
	}
	since := func(at time.Time) float64 { return at.Sub(moment).Seconds() }
	lines := []string{fmt.Sprintf("requests failed that were due from %+.3f s to %+.3f s", since(t.First), since(t.Last))}
	for _, r := range t.Examples {
		lines = append(lines, fmt.Sprintf("  %s, due %+.3f s, over a connection of %+.3f s, %.3f s later: %s",
			r.Kind, since(r.Due), since(r.Opened), r.Latency.Seconds(), load.Reason(r.Err, timeout)))
	}
	return lines
}

// addFailure widens the time in which requests failed.
func (t *Tally) addFailure(due time.Time) {
	if t.First.IsZero() || due.Before(t.First) {
		t.First = due
	}
	if due.After(t.Last) {
		t.Last = due
	}
}

// Summarize sorts the requests to one proxy. Without an outage every failure
// counts. With one, a failure is lost with the proxy if it got no whole answer,
// not even a bad one, over a connection that the dead proxy held or that was
// made before the new one had answered anybody or was said to be ready: whatever
// is answered is an answer of a living proxy, and whatever goes over a new
// connection from then on is the new proxy's to serve. What was never sent is not
// lost with a proxy.
func Summarize(results []load.Result, outage *Outage, timeout time.Duration) Tally {
	var tally Tally
	alive := servesSince(results, outage)
	for _, r := range results {
		tally.Sent++
		diedWithProxy := outage != nil && !isAnswered(r) && !errors.Is(r.Err, load.ErrOverload) &&
			isLostWithProxy(r, *outage, alive)
		switch {
		case r.Err == nil:
			if outage == nil || endOf(r).Before(outage.Signaled) || r.Due.After(alive) {
				tally.Slowest = max(tally.Slowest, r.Latency)
			}
		case diedWithProxy && errors.Is(r.Err, load.ErrPinnedLost):
			tally.Sent-- // held back: that connection's end was noticed before
		case diedWithProxy:
			tally.Lost++
		default:
			tally.Failed++
			tally.addFailure(r.Due)
			if load.Unanswered(r.Err) {
				tally.Unanswered = append(tally.Unanswered, unansweredSpan(r, timeout))
			}
			if len(tally.Examples) < maxExamples && !errors.Is(r.Err, load.ErrPinnedLost) &&
				!errors.Is(r.Err, load.ErrOverload) {
				tally.Examples = append(tally.Examples, r)
			}
			if tally.Reasons == nil {
				tally.Reasons = map[string]int{}
			}
			tally.Reasons[load.Reason(r.Err, timeout)]++
		}
	}
	return tally
}

// endOf is when a request had an answer, or had failed.
func endOf(r load.Result) time.Time { return r.Due.Add(r.Latency) }

// unansweredSpan is the time in which a request had no answer. One that was not sent had
// no room beside others, which had none in the timeout before.
func unansweredSpan(r load.Result, timeout time.Duration) Span {
	if errors.Is(r.Err, load.ErrOverload) {
		return Span{From: r.Due.Add(-timeout), To: r.Due.Add(r.Lag)}
	}
	return Span{From: r.Due, To: endOf(r)}
}

// isAnswered says whether a whole answer came, good or bad.
func isAnswered(r load.Result) bool {
	var status load.StatusError
	return r.Err == nil || errors.As(r.Err, &status) || errors.Is(r.Err, load.ErrAnswer)
}

// isLostWithProxy says whether a request without an answer was on its way to, or over a
// connection of, the dead proxy. alive is when its successor served, zero if there
// was none.
func isLostWithProxy(r load.Result, outage Outage, alive time.Time) bool {
	if endOf(r).Before(outage.Signaled) {
		return false // it had failed before
	}
	made := r.Opened
	if made.IsZero() {
		made = r.Due // there never was a connection
	}
	return alive.IsZero() || made.Before(alive)
}

// servesSince is when the first answer had come over a connection that was made
// after the proxy was gone, or when its successor was said to be ready if that was
// earlier. It is not when that connection was made: the way to the proxy has hops,
// and a later connection may have got there first.
func servesSince(results []load.Result, outage *Outage) time.Time {
	if outage == nil {
		return time.Time{}
	}
	first := outage.Back
	for _, r := range results {
		if !isAnswered(r) || !r.Opened.After(outage.Gone) {
			continue
		}
		if end := endOf(r); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}
