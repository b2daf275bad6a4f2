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
	// excess is the chance below which the canary has lost more than the control:
	// that of 3 σ.
	excess = 0.00135
	// switchesPerMove is how many switches there must be at least for each move that
	// is judged by them.
	switchesPerMove = 5
)

// moves is a change by which endpoints leave a UDPRoute's cluster, or go from one
// Service's locality in it to the other's: Envoy ends the sessions of such
// endpoints, and the datagrams that are on their way then get no answer. A weight
// that leaves both Services a share moves nothing.
type moves struct {
	what string
	// from is before the change was asked for, until is follows after it was seen.
	from, until time.Time
	// times is how often all endpoints left or went over; where those did that took
	// a share of the datagrams, it counts as that share.
	times float64
}

// control is a UDPRoute without a canary, whose Service changes its pods: what
// datagrams cost where nobody changes a weight.
type control struct {
	asker *testClient
	// switched are the times of the switches, first to green. They are known once
	// it has stopped.
	switched []time.Time

	cancel context.CancelFunc
	ended  chan error
}

// start switches the Service again and again, until the test ends if not before.
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

// hasFollowed returns whether a datagram was answered by the side of switch number n since then.
func (c *control) hasFollowed(n int) bool {
	return slices.ContainsFunc(c.asker.all(),
		func(r load.Result) bool { return r.Due.After(c.switched[n]) && r.Color == side(n) })
}

// side is the pod that switch number n leads to.
func side(n int) string { return []string{"green", "blue"}[n%2] }

// run switches the Service from one pod to the other until ctx ends, and never before datagrams have followed the
// switch before. A switch that has begun is carried out and noted: it may cost a datagram.
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
		err = await.Until(ctx, "the control to answer by "+side(n), func() bool { return c.hasFollowed(n) }, c.asker.summary)
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// countFollowed checks that every switch has moved the datagrams before the next:
// otherwise the control shows nothing. It returns how many were lost.
func (c *control) countFollowed(t *testing.T) int {
	t.Helper()
	all := c.asker.all()
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

// between are the requests that were due between two moments.
func between(all []load.Result, from, until time.Time) []load.Result {
	var due []load.Result
	for _, r := range all {
		if !r.Due.Before(from) && r.Due.Before(until) {
			due = append(due, r)
		}
	}
	return due
}

// loss is what a canary cost a UDPRoute beside the control, which gets as many
// datagrams per second through the same proxy at the same time.
type loss struct {
	// lost are the datagrams that were lost in so many moves, elsewhere those lost
	// while nothing moved.
	lost, elsewhere int
	moves           float64
	// byControl are the datagrams that were lost in so many switches.
	byControl, switches int
}

// newLoss counts what a canary and the control have lost.
func newLoss(canary []load.Result, moved []moves, byControl, switches int) loss {
	l := loss{elsewhere: load.NewWindow(len(canary), canary).Failed, byControl: byControl, switches: switches}
	for _, m := range moved {
		spell := between(canary, m.from, m.until)
		l.lost += load.NewWindow(len(spell), spell).Failed
		l.moves += m.times
	}
	l.elsewhere -= l.lost
	return l
}

// chance is that of as many lost datagrams, or more, if a move of the canary cost
// what a switch of the control did.
func (l loss) chance() float64 {
	return stats.Split{Hits: l.lost, Total: l.lost + l.byControl}.Tail(l.moves / (l.moves + float64(l.switches)))
}

// problem says what is wrong with it, nothing if it is what the control shows:
// none lost while nothing moves, and in its moves no more than in as many of the
// control's.
func (l loss) problem() string {
	switch {
	case l.elsewhere > 0:
		return fmt.Sprintf("%d datagrams got no answer while no endpoint left or moved", l.elsewhere)
	case float64(l.switches) < switchesPerMove*l.moves:
		return "too few switches of the control to judge by"
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

// A canary may lose what the control loses, and nothing where nothing moves.
func TestLoss(t *testing.T) {
	tests := []struct {
		name string
		loss loss
		says string
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
		if got := tt.loss.problem(); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: %q, want %q; %s", tt.name, got, tt.says, tt.loss)
		}
	}
}

// Each lost datagram is counted once, where it was due.
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
	moved := []moves{{from: second(2), until: second(3), times: 1.4}, {from: second(7), until: second(9), times: 0.5}}
	want := loss{lost: 2, elsewhere: 1, moves: 1.9, byControl: 4, switches: 30}
	if got := newLoss(canary, moved, 4, 30); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
