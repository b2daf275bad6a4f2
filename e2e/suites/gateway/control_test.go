package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// switchEvery is the time between two switches of the control's Service.
	switchEvery = 4 * time.Second
	// excess is the probability, that of 3 σ, below which the canary has lost more than the control.
	excess = 0.00135
	// switchesPerMove is the minimum number of switches for each compared move.
	switchesPerMove = 5
)

// endpointMove is a change that removes endpoints from a UDPRoute's cluster, or moves them to the other Service's
// locality in it. Envoy ends the sessions of such endpoints, and the datagrams in flight get no response. A weight that
// leaves both Services a share moves nothing.
type endpointMove struct {
	what string
	// from is before the request of the change. until is usualUpdateDelay after it was observed.
	from, until time.Time
	// times is how often all endpoints were removed or moved. Endpoints with a share of the datagrams count as that share.
	times float64
}

// control is a UDPRoute without a canary whose Service changes its Pods. It shows how many datagrams are lost without a
// change of weights.
type control struct {
	client *testClient
	// switched are the times of the switches, the first one to green. They are available after stop.
	switched []time.Time

	cancel context.CancelFunc
	ended  chan error
}

// start switches the Service repeatedly until stop is called or the test ends.
func (c *control) start(t *testing.T, w environment) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel, c.ended = cancel, make(chan error, 1)
	go func() {
		c.ended <- c.run(ctx, w)
		close(c.ended)
	}()
	t.Cleanup(func() {
		c.cancel()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	})
}

// stop ends the switching, and waits until datagrams have followed the last switch.
func (c *control) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	if err := <-c.ended; err != nil {
		t.Fatal(err)
	}
	if last := len(c.switched) - 1; last >= 0 {
		await.True(t, "the control's last switch", func() bool { return c.hasFollowed(last) })
	}
}

// hasFollowed reports whether the target of switch n has responded to a datagram since then.
func (c *control) hasFollowed(n int) bool {
	return slices.ContainsFunc(c.client.all(),
		func(r load.Result) bool { return r.Due.After(c.switched[n]) && r.Color == side(n) })
}

// side returns the Pod of switch n.
func side(n int) string { return []string{"green", "blue"}[n%2] }

// run switches the Service between the Pods until ctx ends, each time only after datagrams have followed the previous
// switch. A started switch is completed and recorded, because it may lose a datagram.
func (c *control) run(ctx context.Context, w environment) error {
	ticks := time.NewTicker(switchEvery)
	defer ticks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		c.switched = append(c.switched, time.Now())
		_, err := w.try(context.WithoutCancel(ctx), "kubectl", "patch", "service", "control",
			"-p", fmt.Sprintf(`{"spec":{"selector":{"side":%q}}}`, side(n)))
		if err != nil {
			return fmt.Errorf("switch the control to %s: %w", side(n), err)
		}
		err = await.Until(ctx, "the control to answer by "+side(n), func() bool { return c.hasFollowed(n) }, c.client.summary)
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// countFollowed checks that datagrams have followed every switch before the next one: otherwise the control is invalid.
// It returns the number of lost datagrams.
func (c *control) countFollowed(t *testing.T) int {
	t.Helper()
	all := c.client.all()
	lost := load.NewWindow(len(all), all).Failed
	var slowest time.Duration
	for n, at := range c.switched {
		until := time.Now()
		if n+1 < len(c.switched) {
			until = c.switched[n+1]
		}
		due := between(all, at, until)
		first := slices.IndexFunc(due, func(r load.Result) bool { return r.Color == side(n) })
		if first < 0 {
			t.Errorf("the control was switched to %s, and no datagram was answered so %s later", side(n), until.Sub(at))
			continue
		}
		slowest = max(slowest, due[first].Due.Sub(at))
	}
	t.Logf("the control was switched %d times, each was seen after %s at most", len(c.switched), slowest)
	return lost
}

// between returns the requests that were due between two moments.
func between(all []load.Result, from, until time.Time) []load.Result {
	var due []load.Result
	for _, r := range all {
		if !r.Due.Before(from) && r.Due.Before(until) {
			due = append(due, r)
		}
	}
	return due
}

// loss contains the lost datagrams of a canary and of the control, which gets the same rate through the same proxy at
// the same time.
type loss struct {
	// lost is the number of datagrams that were lost during moves, elsewhere of those lost while nothing moved.
	lost, elsewhere int
	moves           float64
	// byControl is the number of datagrams that the control lost in that many switches.
	byControl, switches int
}

// newLoss counts the lost datagrams of a canary and of the control.
func newLoss(canary []load.Result, moved []endpointMove, byControl, switches int) loss {
	l := loss{elsewhere: load.NewWindow(len(canary), canary).Failed, byControl: byControl, switches: switches}
	for _, m := range moved {
		spell := between(canary, m.from, m.until)
		l.lost += load.NewWindow(len(spell), spell).Failed
		l.moves += m.times
	}
	l.elsewhere -= l.lost
	return l
}

// chance returns the probability of at least that many lost datagrams if a move of the canary loses as many as a switch
// of the control.
func (l loss) chance() float64 {
	return stats.Split{Hits: l.lost, Total: l.lost + l.byControl}.Tail(l.moves / (l.moves + float64(l.switches)))
}

// problem returns what is wrong, or nothing. No datagram may be lost while nothing moves, and during moves not more
// than in as many switches of the control.
func (l loss) problem() string {
	switch {
	case l.elsewhere > 0:
		return fmt.Sprintf("%d datagrams got no answer while no endpoint left or moved", l.elsewhere)
	case float64(l.switches) < switchesPerMove*l.moves:
		return "too few switches of the control"
	case l.chance() < excess:
		return "a canary's moves cost more than the control's"
	default:
		return ""
	}
}

// String implements fmt.Stringer.
func (l loss) String() string {
	return fmt.Sprintf("datagrams lost: %d in %.1f moves of the canary, %d while nothing moved, %d in %d switches of the "+
		"control; "+
		"so many or more have a chance of %.2g", l.lost, l.moves, l.elsewhere, l.byControl, l.switches, l.chance())
}

// A canary may lose as many datagrams as the control, and none while nothing moves.
func TestLoss(t *testing.T) {
	tests := []struct {
		name        string
		loss        loss
		wantMessage string
	}{
		{"none lost by either", loss{moves: 1.6, switches: 25}, ""},
		{"as the control", loss{lost: 1, moves: 1.6, byControl: 9, switches: 25}, ""},
		{"chance", loss{lost: 4, moves: 1.6, byControl: 9, switches: 25}, ""},
		{"more than the control", loss{lost: 5, moves: 1.6, byControl: 9, switches: 25}, "cost more"},
		{"three where the control loses none", loss{lost: 3, moves: 1.6, switches: 25}, "cost more"},
		{"one where nothing moves", loss{elsewhere: 1, moves: 1.6, byControl: 9, switches: 25}, "1 datagrams got no answer"},
		{"a control that shows nothing", loss{moves: 1.6, switches: 7}, "too few switches"},
	}
	for _, tt := range tests {
		if got := tt.loss.problem(); (got == "") != (tt.wantMessage == "") || !strings.Contains(got, tt.wantMessage) {
			t.Errorf("%s: %q, want %q; %s", tt.name, got, tt.wantMessage, tt.loss)
		}
	}
}

// Each lost datagram is counted once, by its due time.
func TestNewLoss(t *testing.T) {
	start := time.Now()
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	var canary []load.Result
	for n := range 10 {
		canary = append(canary, load.Result{Due: second(n), Color: "blue"})
	}
	for _, n := range []int{2, 5, 8} {
		canary[n].Err = errUnanswered
	}
	moved := []endpointMove{
		{from: second(2), until: second(3), times: 1.4}, {from: second(7), until: second(9), times: 0.5},
	}
	want := loss{lost: 2, elsewhere: 1, moves: 1.9, byControl: 4, switches: 30}
	if got := newLoss(canary, moved, 4, 30); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
