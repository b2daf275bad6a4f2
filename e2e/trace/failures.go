package trace

import (
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// Outage is the termination of a proxy.
type Outage struct {
	// Signaled is when the proxy received the signal, Gone when the process was seen to be gone. Back is when its
	// successor was reported as ready; zero if it was not.
	Signaled, Gone, Back time.Time
}

// Tally counts the results of requests to one proxy.
type Tally struct {
	// Sent is the number of requests that were sent and have ended.
	Sent int
	// Lost is the number of failed requests that were lost with the terminated proxy: no running proxy received them.
	Lost int
	// Failed is the number of failed requests that a running proxy could have served.
	Failed int
	// Reasons counts Failed by load.Reason.
	Reasons map[string]int
	// Unanswered are the spans without an answer, of those Failed requests that only ran out of time (load.Unanswered).
	Unanswered []Span
	// Slowest is the longest latency of a successful request to a proxy that was running all the time.
	Slowest time.Duration
	// First and Last are when the first and the last of Failed were due.
	First, Last time.Time
	// Examples are the first few Failed requests that were sent.
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

// Describe describes the failed requests, with times relative to a moment.
func (t *Tally) Describe(moment time.Time, timeout time.Duration) []string {
	if t.Failed == 0 {
		return nil
	}
	since := func(at time.Time) float64 { return at.Sub(moment).Seconds() }
	lines := []string{fmt.Sprintf("requests failed that were due from %+.3f s to %+.3f s", since(t.First), since(t.Last))}
	for _, r := range t.Examples {
		lines = append(lines, fmt.Sprintf("  %s, due %+.3f s, over a connection of %+.3f s, %.3f s later: %s",
			r.Kind, since(r.Due), since(r.Opened), r.Latency.Seconds(), load.Explain(r.Err, timeout)))
	}
	return lines
}

// addFailure extends the span of failed requests.
func (t *Tally) addFailure(due time.Time) {
	if t.First.IsZero() || due.Before(t.First) {
		t.First = due
	}
	if due.After(t.Last) {
		t.Last = due
	}
}

// Summarize counts the requests to one proxy. Without an outage every failure counts as Failed.
//
// With an outage, a failed request is Lost if it got no complete response and its connection was one to the terminated
// proxy. That is a connection opened before the new proxy sent its first response or was reported as ready. A complete
// response, even an error, comes from a running proxy. A request over a later connection is the new proxy's to serve. A
// request that was never sent is not Lost.
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
			tally.Sent-- // not sent: the client already knew that the connection was closed
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

// endOf returns when a request was answered or failed.
func endOf(r load.Result) time.Time { return r.Due.Add(r.Latency) }

// unansweredSpan returns the span in which a request had no answer. A request that was not sent exceeded the limit of
// concurrent requests, and those had no answer for the timeout before.
func unansweredSpan(r load.Result, timeout time.Duration) Span {
	if errors.Is(r.Err, load.ErrOverload) {
		return Span{From: r.Due.Add(-timeout), To: r.Due.Add(r.Lag)}
	}
	return Span{From: r.Due, To: endOf(r)}
}

// isAnswered reports whether a complete response was received, successful or not.
func isAnswered(r load.Result) bool {
	var status load.StatusError
	return r.Err == nil || errors.As(r.Err, &status) || errors.Is(r.Err, load.ErrAnswer)
}

// isLostWithProxy reports whether a request without a response was on a connection to the terminated proxy or about to
// open one. alive is when the successor served; zero if there was none.
func isLostWithProxy(r load.Result, outage Outage, alive time.Time) bool {
	if endOf(r).Before(outage.Signaled) {
		return false // failed before the signal
	}
	opened := r.Opened
	if opened.IsZero() {
		opened = r.Due // there never was a connection
	}
	return alive.IsZero() || opened.Before(alive)
}

// servesSince returns when the first response was complete over a connection opened after the proxy was gone, or when
// the successor was reported as ready if that was earlier. The time when that connection was opened is not used: the
// path to the proxy has several hops, and a later connection may have reached it first.
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
