package gateway

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// proxyUpdateDelay is the time from when the implementation reports a route as accepted to the first measured request.
	// Its proxies nearly always have the route by then.
	proxyUpdateDelay = 500 * time.Millisecond
	// usualUpdateDelay is the usual maximum delay of third-party proxies after that. Longer delays are logged. They fail
	// only after await.Patience. Envoy Gateway was never late. Traefik, configured to wait 0.1 s for more changes, was
	// late by 0.22 s in 20 runs, and once by 0.72 s when Pods started at the same time.
	usualUpdateDelay = 2 * time.Second
)

// split checks that the color's share of the requests is the weight and that no request has failed so far. Third-party
// proxies may apply a route late: a wrong sample is repeated while the weight is unchanged. A guide's pauses end by
// time. The result is therefore void if the machine stalled, or if the route changed before there was a sample.
func (c *guideRun) split(t *testing.T, weight int, color string) {
	t.Helper()
	share := float64(weight) / 100
	asked := assert.Expectation{
		Color: color, Share: share, From: time.Now().Add(proxyUpdateDelay), First: c.sample, Second: c.sample,
		Rule: stats.DefaultRule(), OnUnsure: logUnsure(t, color, share),
	}
	began := time.Now()
	m := measured{sample: c.all.Sample, isCurrent: func() bool { return c.hasWeight(weight) }}
	result, err := m.split(t, asked)
	isLate := time.Since(began) > await.Patience()
	stood := isLate || m.off > 0 && c.stalls.Largest(began, time.Now()) <= stall.Limit
	switch {
	case errors.Is(err, assert.ErrSplit) && stood:
		invariant.Broken(t, invariant.Split, "%v", err)
	case errors.Is(err, assert.ErrSplit):
		t.Logf("void: %d %% of %s was not measured while the route stood and the machine ran: %v; %s",
			weight, color, err, c.seen.Get())
	case err != nil:
		t.Fatal(err)
	}
	t.Logf("%s: desired %d %%, measured %.2f %% of %d (%.1f σ); %s", color, weight,
		result.Share()*100, result.Total, result.Sigmas(share), c.quality(result.Window))
	c.checkNoneFailed(t)
}

// step waits for a step of the canary and checks its split. If the setup can read it, it logs how long after the
// acceptance of the route its proxy applied it.
func (c *guideRun) step(t *testing.T, weight int, color string) {
	t.Helper()
	accepted := c.awaitWeight(t, weight)
	if c.proxy.inspector != nil {
		t.Logf("%s: %d %% applied %s", color, weight, c.applied(t, weight, accepted))
	}
	c.split(t, weight, color)
}

// measured is the measurement of a split that third-party proxies may apply late.
type measured struct {
	sample assert.Sample
	// isCurrent returns whether the split is still the requested one.
	isCurrent func() bool
	// off is the number of wrong samples while it was.
	off int
}

// split measures until a sample agrees, the requested split changes, or await.Patience has passed.
func (m *measured) split(t *testing.T, asked assert.Expectation) (assert.Result, error) {
	t.Helper()
	for began := time.Now(); ; {
		result, err := asked.Check(t.Context(), m.sample)
		if !errors.Is(err, assert.ErrSplit) || !m.isCurrent() {
			return result, err
		}
		m.off++
		if time.Since(began) > await.Patience() {
			return result, err
		}
		t.Logf("late or wrong, taking another sample: %v", err)
		asked.From = time.Now()
	}
}

// logUnsure logs a first sample that requires a second one.
func logUnsure(t *testing.T, name string, share float64) func(first stats.Split) {
	t.Helper()
	return func(first stats.Split) {
		t.Logf("%s: %.2f %% is %.1f σ from %.0f %%: a second sample decides", name, first.Share()*100,
			first.Sigmas(share), share*100)
	}
}

// latencies formats the latencies of a window.
func latencies(w load.Window) string {
	return fmt.Sprintf("p50 %s, p99 %s", stats.Quantile(w.Latencies, 0.5), stats.Quantile(w.Latencies, 0.99))
}

// checkAll waits after the end of a canary until all responses have the color, and logs how long others were received.
func (c *guideRun) checkAll(t *testing.T, color string, since time.Time) {
	t.Helper()
	window := c.checkAllFrom(t, c.all, c.sample, color)
	first := c.all.Next(since)
	turned := measureTurnover(c.all.Ended(first, c.all.Begun()-first), color, since)
	t.Logf("%s: desired 100 %%, %s, usually %s at most; %s", color, turned, usualUpdateDelay, c.quality(window))
	c.checkNoneFailed(t)
}

// checkAllFrom waits until all of n requests that are due from then on return the color.
func (c *guideRun) checkAllFrom(t *testing.T, client *load.Client, n int, color string) load.Window {
	t.Helper()
	var window load.Window
	var problem error
	err := await.Until(t.Context(), color+" to answer all", func() bool {
		if window, problem = client.Sample(t.Context(), time.Now(), n); problem != nil {
			return true
		}
		return window.Colors[color]+window.Failed == n && window.Colors[color] > 0
	}, func() string { return fmt.Sprint(window.Colors) })
	if problem != nil {
		t.Fatal(problem)
	}
	if err != nil {
		invariant.Broken(t, invariant.End, "%v", err)
	}
	return window
}

// quality formats the latencies of a window, and the maximum delay of a start so far.
func (c *guideRun) quality(w load.Window) string {
	totals := c.all.Totals()
	return fmt.Sprintf("%s; %d requests so far, %d failed, at most %s late", latencies(w),
		totals.Sent, totals.Failed, totals.Lag)
}

// checkNoneFailed checks that no request has failed so far.
func (c *guideRun) checkNoneFailed(t *testing.T) {
	t.Helper()
	if totals := c.all.Totals(); totals.Failed > 0 {
		invariant.Broken(t, invariant.FailedRequests, "%d of %d so far: %v", totals.Failed, totals.Sent, totals.Reasons)
	}
}

// turnover describes the transition of responses to one color.
type turnover struct {
	right, wrong int
	// last is when the last wrong one was due, relative to a moment; late is the number of wrong ones since then.
	last time.Duration
	late int
	// again is the number of wrong responses to requests sent later than proxyUpdateDelay after the first correct one. A
	// proxy's workers apply a route one after the other.
	again int
}

// measureTurnover evaluates the successful responses around a moment.
func measureTurnover(results []load.Result, color string, moment time.Time) turnover {
	var all turnover
	var answered time.Time // end of the first correct one
	for _, r := range results {
		switch {
		case r.Err != nil: // counted by its client
		case r.Color == color:
			if at := r.Due.Add(r.Latency); all.right == 0 || at.Before(answered) {
				answered = at
			}
			all.right++
		default:
			all.wrong++
			all.last = r.Due.Sub(moment)
			if all.last >= 0 {
				all.late++
			}
			if all.right > 0 && r.Due.After(answered.Add(proxyUpdateDelay)) {
				all.again++
			}
		}
	}
	return all
}

// String implements fmt.Stringer.
func (a turnover) String() string {
	if a.wrong == 0 {
		return fmt.Sprintf("%d correct, none wrong", a.right)
	}
	return fmt.Sprintf("%d correct, %d wrong, %d of them since the route was accepted, the last %s after that, %d long "+
		"after "+
		"a correct response",
		a.right, a.wrong, a.late, a.last, a.again)
}

// testers are users that send a guide's header all the time.
type testers struct {
	client *load.Client
	// checked is the number of the first unchecked request.
	checked int
}

// testersInARow is the minimum number of requests of the testers in a check.
const testersInARow = 50

// asQA checks that all unchecked requests of the testers returned the color.
func (c *guideRun) asQA(t *testing.T, color string) {
	t.Helper()
	results := c.asked(t, time.Now())
	turned := measureTurnover(results, color, results[0].Due)
	t.Logf("testers: %s, %s", color, turned)
	if turned.wrong > 0 {
		invariant.Broken(t, invariant.Split, "%s is to answer the testers: %s", color, turned)
	}
}

// turnQA waits until the testers' responses change from one color to another, after the implementation accepted the
// route at the moment taken. No third color may occur. It logs the delay of the other responses.
func (c *guideRun) turnQA(t *testing.T, from, to string, taken time.Time) {
	t.Helper()
	c.checkAllFrom(t, c.testers.client, testersInARow, to)
	results := c.asked(t, time.Now())
	turned := measureTurnover(results, to, taken)
	t.Logf("testers: from %s to %s, %s, usually %s at most", from, to, turned, usualUpdateDelay)
	for color, n := range load.NewWindow(len(results), results).Colors {
		if color != from && color != to {
			invariant.Broken(t, invariant.Split, "%s has answered %d requests of the testers on their way from %s to %s",
				color, n, from, to)
		}
	}
}

// asked returns the unchecked requests of the testers up to those that are due after a moment.
func (c *guideRun) asked(t *testing.T, until time.Time) []load.Result {
	t.Helper()
	if _, err := c.testers.client.Sample(t.Context(), until, testersInARow); err != nil {
		t.Fatal(err)
	}
	first, end := c.testers.checked, c.testers.client.Next(until)+testersInARow
	c.testers.checked = end
	return c.testers.client.Ended(first, end-first)
}

// A turnover depends on the due times of requests and on the end of the first correct response.
func TestMeasureTurnover(t *testing.T) {
	moment := time.Now()
	result := func(color string, due, latency int) load.Result {
		return load.Result{Color: color, Due: moment.Add(time.Duration(due)), Latency: time.Duration(latency)}
	}
	tests := []struct {
		name    string
		results []load.Result
		want    turnover
	}{
		{
			"before the route was accepted",
			[]load.Result{result("v1", -20, 5), result("v2", -10, 5), result("v2", 0, 5)},
			turnover{right: 2, wrong: 1, last: -20},
		},
		{
			"after it",
			[]load.Result{result("v1", 0, 5), result("v1", 10, 5), result("v2", 20, 5)},
			turnover{right: 1, wrong: 2, last: 10, late: 2},
		},
		{
			"in flight with the first correct one",
			[]load.Result{result("v2", 0, 30), result("v1", 10, 5), result("v2", 20, 5)},
			turnover{right: 2, wrong: 1, last: 10, late: 1},
		},
		{
			"sent right after the end of a correct one",
			[]load.Result{result("v2", 0, 5), result("v1", 10, 5)},
			turnover{right: 1, wrong: 1, last: 10, late: 1},
		},
		{
			"sent long after the end of a correct one",
			[]load.Result{result("v2", 0, 5), result("v1", int(proxyUpdateDelay)+10, 5)},
			turnover{right: 1, wrong: 1, last: proxyUpdateDelay + 10, late: 1, again: 1},
		},
		{"never", []load.Result{result("v1", 0, 5)}, turnover{wrong: 1, late: 1}},
		{"failed ones are counted elsewhere", []load.Result{{Err: load.ErrAnswer, Due: moment}}, turnover{}},
	}
	for _, tt := range tests {
		if got := measureTurnover(tt.results, "v2", moment); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
