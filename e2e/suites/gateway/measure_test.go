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
	// settle is the time between the implementation's word that it has taken a route and the first request that
	// a split counts: its proxies follow. Nearly always they have by then.
	settle = 500 * time.Millisecond
	// follows is how long after that word proxies of others usually follow at most. Later ones are logged, and fail only
	// when they do not follow within await.Patience. Envoy Gateway was never late. Traefik, told to wait 0.1 s for more
	// changes, was late by 0.22 s in 20 walks, and by 0.72 s once, when Pods started beside it.
	follows = 2 * time.Second
)

// split checks that the color's share of the requests is the weight, and that no request has failed so far. Proxies of
// others may follow late: while the weight stands, a sample that is off is followed by another one. A guide's pauses
// end by time, so the verdict is void when the machine stood still, or when the route went on before there was a
// sample.
func (c *guideRun) split(t *testing.T, weight int, color string) {
	t.Helper()
	share := float64(weight) / 100
	asked := assert.Expectation{
		Color: color, Share: share, From: time.Now().Add(settle), First: c.sample, Second: c.sample,
		Rule: stats.DefaultRule(), OnUnsure: logUnsure(t, color, share),
	}
	began := time.Now()
	m := measured{sample: c.all.Sample, stands: func() bool { return c.at(weight) }}
	found, err := m.split(t, asked)
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
	t.Logf("%s: asked %d %%, measured %.2f %% of %d (%.1f σ); %s", color, weight,
		found.Share()*100, found.Total, found.Sigmas(share), c.quality(found.Window))
	c.checkNoneFailed(t)
}

// measured is the measurement of a split that proxies of others may take late.
type measured struct {
	sample assert.Sample
	// stands returns whether the split is still the one that was requested.
	stands func() bool
	// off counts the samples that were off while it stood.
	off int
}

// split measures until a sample agrees, the split stands no more, or await.Patience is over.
func (m *measured) split(t *testing.T, asked assert.Expectation) (assert.Result, error) {
	t.Helper()
	for began := time.Now(); ; {
		found, err := asked.Check(t.Context(), m.sample)
		if !errors.Is(err, assert.ErrSplit) || !m.stands() {
			return found, err
		}
		m.off++
		if time.Since(began) > await.Patience() {
			return found, err
		}
		t.Logf("late or wrong, so another sample is taken: %v", err)
		asked.From = time.Now()
	}
}

// logUnsure tells of a first sample that calls for a fresh one.
func logUnsure(t *testing.T, of string, share float64) func(first stats.Split) {
	t.Helper()
	return func(first stats.Split) {
		t.Logf("%s: %.2f %% is %.1f σ from %.0f %%: a fresh sample decides", of, first.Share()*100,
			first.Sigmas(share), share*100)
	}
}

// latencies are how long the answers of a window took.
func latencies(w load.Window) string {
	return fmt.Sprintf("p50 %s, p99 %s", stats.Quantile(w.Latencies, 0.5), stats.Quantile(w.Latencies, 0.99))
}

// checkAll waits, after the end of a canary that was seen at a moment, until the color answers all, and logs how long
// others did.
func (c *guideRun) checkAll(t *testing.T, color string, since time.Time) {
	t.Helper()
	window := c.checkAllFrom(t, c.all, c.sample, color)
	first := c.all.Next(since)
	turned := measureTurnover(c.all.Ended(first, c.all.Begun()-first), color, since)
	t.Logf("%s: asked 100 %%, %s, usually %s at most; %s", color, turned, follows, c.quality(window))
	c.checkNoneFailed(t)
}

// checkAllFrom waits until the color answers all of n requests that are due from then on.
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

// quality is how well the requests of a window were answered, and how late they
// started at most so far.
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

// turnover is how requests come to be answered by one color.
type turnover struct {
	right, wrong int
	// last is when the last wrong one was due, counted from a moment; late counts
	// the wrong ones since then.
	last time.Duration
	late int
	// again counts the wrong ones that were asked when a right answer had been in for settle: a proxy's workers take a
	// route over one by one.
	again int
}

// measureTurnover looks at good answers beside a moment.
func measureTurnover(results []load.Result, color string, moment time.Time) turnover {
	var all turnover
	var answered time.Time // the first right one
	for _, r := range results {
		switch {
		case r.Err != nil: // whoever sent it counts it
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
			if all.right > 0 && r.Due.After(answered.Add(settle)) {
				all.again++
			}
		}
	}
	return all
}

// String implements fmt.Stringer.
func (a turnover) String() string {
	if a.wrong == 0 {
		return fmt.Sprintf("%d right, none wrong", a.right)
	}
	return fmt.Sprintf("%d right, %d wrong, %d of them since the route was taken, the last %s after that, %d long after "+
		"a right answer was in",
		a.right, a.wrong, a.late, a.last, a.again)
}

// testers are users that send a guide's header all the time.
type testers struct {
	client *load.Client
	// checked is the number of their first request that was not judged yet.
	checked int
}

// testersInARow is how many requests of the testers are judged at least.
const testersInARow = 50

// asQA checks that the color has answered every request of the testers since the
// last one that was judged.
func (c *guideRun) asQA(t *testing.T, color string) {
	t.Helper()
	results := c.asked(t, time.Now())
	turned := measureTurnover(results, color, results[0].Due)
	t.Logf("testers: %s, %s", color, turned)
	if turned.wrong > 0 {
		invariant.Broken(t, invariant.Split, "%s is to answer the testers: %s", color, turned)
	}
}

// turnQA waits until the testers, who were answered by one color, are answered by another, since the implementation
// said, at a moment, that it has taken the route. No third one may answer them. How late others followed is logged.
func (c *guideRun) turnQA(t *testing.T, from, to string, taken time.Time) {
	t.Helper()
	c.checkAllFrom(t, c.testers.client, testersInARow, to)
	results := c.asked(t, time.Now())
	turned := measureTurnover(results, to, taken)
	t.Logf("testers: from %s to %s, %s, usually %s at most", from, to, turned, follows)
	for color, n := range load.NewWindow(len(results), results).Colors {
		if color != from && color != to {
			invariant.Broken(t, invariant.Split, "%s has answered %d requests of the testers on their way from %s to %s",
				color, n, from, to)
		}
	}
}

// asked are the requests of the testers from the last that was judged, to those
// that are due after a moment.
func (c *guideRun) asked(t *testing.T, until time.Time) []load.Result {
	t.Helper()
	if _, err := c.testers.client.Sample(t.Context(), until, testersInARow); err != nil {
		t.Fatal(err)
	}
	first, end := c.testers.checked, c.testers.client.Next(until)+testersInARow
	c.testers.checked = end
	return c.testers.client.Ended(first, end-first)
}

// A turn is judged by when requests were due and when the first right answer was in.
func TestTurn(t *testing.T) {
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
			"before the route was taken",
			[]load.Result{result("v1", -20, 5), result("v2", -10, 5), result("v2", 0, 5)},
			turnover{right: 2, wrong: 1, last: -20},
		},
		{
			"after it",
			[]load.Result{result("v1", 0, 5), result("v1", 10, 5), result("v2", 20, 5)},
			turnover{right: 1, wrong: 2, last: 10, late: 2},
		},
		{
			"under way with the first right one",
			[]load.Result{result("v2", 0, 30), result("v1", 10, 5), result("v2", 20, 5)},
			turnover{right: 2, wrong: 1, last: 10, late: 1},
		},
		{
			"asked when a right one was just in",
			[]load.Result{result("v2", 0, 5), result("v1", 10, 5)},
			turnover{right: 1, wrong: 1, last: 10, late: 1},
		},
		{
			"asked long after a right one was in",
			[]load.Result{result("v2", 0, 5), result("v1", int(settle)+10, 5)},
			turnover{right: 1, wrong: 1, last: settle + 10, late: 1, again: 1},
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
