package gateway

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/judge"
	"github.com/kedify/argo-rollouts-plugin/e2e/load"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

const (
	// settle is the time between the implementation's word that it has taken a route and the first request that
	// a split counts: its proxies follow. Nearly always they have by then.
	settle = 500 * time.Millisecond
	// follows bounds how long after that word a request may still be answered by the route of before. How soon
	// proxies follow is the implementation's affair, and no router's: the bound tells one that is late from one
	// that never comes. Envoy Gateway was never late. Traefik, told to wait 0.1 s for more changes, was late by
	// 0.22 s in 20 walks, and by 0.72 s once, when Pods started beside it. Each walk prints it.
	follows = 2 * time.Second
)

// split checks that the color's share of the requests is the weight, and that
// no request has failed so far. While the sample is taken the weight must stand.
func (c *walk) split(t *testing.T, weight int, color string) {
	t.Helper()
	share := float64(weight) / 100
	found, err := judge.Asked{
		Color: color, Share: share, From: time.Now().Add(settle), First: c.sample, Fresh: c.sample,
		Rule: stats.DefaultRule(), Odd: odd(t, color, share),
	}.Judge(t.Context(), c.all.Sample)
	switch {
	case errors.Is(err, judge.ErrSplit):
		t.Error(err)
	case err != nil:
		t.Fatal(err)
	}
	if !c.at(weight) {
		t.Fatalf("the route has gone on while %d %% was measured: %s", weight, c.seen.Get())
	}
	t.Logf("%s: asked %d %%, measured %.2f %% of %d (%.1f σ); %s", color, weight,
		found.Share()*100, found.Total, found.Sigmas(share), c.quality(found.Window))
	c.noneFailed(t)
}

// odd tells of a first sample that calls for a fresh one.
func odd(t *testing.T, of string, share float64) func(first stats.Split) {
	t.Helper()
	return func(first stats.Split) {
		t.Logf("%s: %.2f %% is %.1f σ from %.0f %%: a fresh sample decides", of, first.Share()*100, first.Sigmas(share), share*100)
	}
}

// latencies are how long the answers of a window took.
func latencies(w load.Window) string {
	return fmt.Sprintf("p50 %s, p99 %s", stats.Quantile(w.Latencies, 0.5), stats.Quantile(w.Latencies, 0.99))
}

// everything checks, after the end of a canary that was seen at a moment, that
// the color answers all.
func (c *walk) everything(t *testing.T, color string, since time.Time) {
	t.Helper()
	window, err := c.all.Sample(t.Context(), since.Add(follows), c.sample)
	if err != nil {
		t.Fatal(err)
	}
	first, end := c.all.Next(since), c.all.Next(since.Add(follows))+c.sample
	turned := turn(c.all.Ended(first, end-first), color, since)
	t.Logf("%s: asked 100 %%, %s; %s", color, turned, c.quality(window))
	if turned.last > follows {
		t.Errorf("%s is to answer all %s after the route was taken: %s", color, follows, turned)
	}
	c.noneFailed(t)
}

// quality is how well the requests of a window were answered, and how late they
// started at most so far.
func (c *walk) quality(w load.Window) string {
	totals := c.all.Totals()
	return fmt.Sprintf("%s; %d requests so far, %d failed, at most %s late", latencies(w), totals.Sent, totals.Failed, totals.Lag)
}

// noneFailed checks that no request has failed so far.
func (c *walk) noneFailed(t *testing.T) {
	t.Helper()
	if totals := c.all.Totals(); totals.Failed > 0 {
		t.Errorf("%d of %d requests have failed so far: %v", totals.Failed, totals.Sent, totals.Reasons)
	}
}

// turned is how requests come to be answered by one color.
type turned struct {
	right, wrong int
	// last is when the last wrong one was due, counted from a moment; late counts
	// the wrong ones since then.
	last time.Duration
	late int
	// again counts the wrong ones that were asked when a right answer had been in for settle: a proxy's workers take a route over one by one.
	again int
}

// turn looks at good answers beside a moment.
func turn(results []load.Result, color string, moment time.Time) turned {
	var all turned
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
func (a turned) String() string {
	if a.wrong == 0 {
		return fmt.Sprintf("%d right, none wrong", a.right)
	}
	return fmt.Sprintf("%d right, %d wrong, %d of them since the route was taken, the last %s after that, %d long after a right answer was in",
		a.right, a.wrong, a.late, a.last, a.again)
}

// testers are users that send a guide's header all the time.
type testers struct {
	client *load.Client
	// judged is the number of their first request that was not judged yet.
	judged int
}

// testersInARow is how many requests of the testers are judged at least.
const testersInARow = 50

// asQA checks that the color has answered every request of the testers since the
// last one that was judged.
func (c *walk) asQA(t *testing.T, color string) {
	t.Helper()
	results := c.asked(t, time.Now())
	turned := turn(results, color, results[0].Due)
	t.Logf("testers: %s, %s", color, turned)
	if turned.wrong > 0 {
		t.Errorf("%s is to answer the testers: %s", color, turned)
	}
}

// turnQA checks that the testers, who were answered by one color, are answered by
// another, at the latest follows after the implementation said, at a moment, that it
// has taken the route. Whoever asks when a right answer has been in for a while gets one, too, unless
// the testers are mixed for a while.
func (c *walk) turnQA(t *testing.T, from, to string, taken time.Time, mixed bool) {
	t.Helper()
	results := c.asked(t, taken.Add(follows))
	turned := turn(results, to, taken)
	t.Logf("testers: from %s to %s, %s", from, to, turned)
	for color, n := range load.NewWindow(len(results), results).Colors {
		if color != from && color != to {
			t.Errorf("%s has answered %d requests of the testers on their way from %s to %s", color, n, from, to)
		}
	}
	if turned.last > follows || (turned.again > 0 && !mixed) {
		t.Errorf("%s is to answer the testers %s after the route was taken: %s", to, follows, turned)
	}
}

// asked are the requests of the testers from the last that was judged, to those
// that are due after a moment.
func (c *walk) asked(t *testing.T, until time.Time) []load.Result {
	t.Helper()
	if _, err := c.testers.client.Sample(t.Context(), until, testersInARow); err != nil {
		t.Fatal(err)
	}
	first, end := c.testers.judged, c.testers.client.Next(until)+testersInARow
	c.testers.judged = end
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
		want    turned
	}{
		{
			"before the route was taken",
			[]load.Result{result("v1", -20, 5), result("v2", -10, 5), result("v2", 0, 5)},
			turned{right: 2, wrong: 1, last: -20},
		},
		{
			"after it",
			[]load.Result{result("v1", 0, 5), result("v1", 10, 5), result("v2", 20, 5)},
			turned{right: 1, wrong: 2, last: 10, late: 2},
		},
		{
			"under way with the first right one",
			[]load.Result{result("v2", 0, 30), result("v1", 10, 5), result("v2", 20, 5)},
			turned{right: 2, wrong: 1, last: 10, late: 1},
		},
		{
			"asked when a right one was just in",
			[]load.Result{result("v2", 0, 5), result("v1", 10, 5)},
			turned{right: 1, wrong: 1, last: 10, late: 1},
		},
		{
			"asked long after a right one was in",
			[]load.Result{result("v2", 0, 5), result("v1", int(settle)+10, 5)},
			turned{right: 1, wrong: 1, last: settle + 10, late: 1, again: 1},
		},
		{"never", []load.Result{result("v1", 0, 5)}, turned{wrong: 1, late: 1}},
		{"failed ones are counted elsewhere", []load.Result{{Err: load.ErrAnswer, Due: moment}}, turned{}},
	}
	for _, tt := range tests {
		if got := turn(tt.results, "v2", moment); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
