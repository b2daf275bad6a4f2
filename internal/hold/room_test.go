package hold_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/hold"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/waitingpage"
)

var (
	first, second = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	shop, other   = ir.Key{Namespace: "apps", Name: "shop"}, ir.Key{Namespace: "apps", Name: "other"}
	foreign       = ir.Key{Namespace: "foreign", Name: "app"}
	web           = ir.Key{Namespace: "apps", Name: "web"}
)

// room has three apps of two namespaces with a cluster each, and shop with two.
func room(limits hold.Limits) *hold.Room {
	r := hold.NewRoom(limits)
	r.SetApp(shop, hold.App{Fleet: "apps", Clusters: []string{"shop/stable", "shop/canary"}, Patience: time.Minute})
	r.SetApp(other, hold.App{Fleet: "apps", Clusters: []string{"other"}})
	r.SetApp(foreign, hold.App{Fleet: "foreign", Clusters: []string{"foreign"}})
	return r
}

// wide are Limits that no test reaches.
func wide() hold.Limits { return hold.Limits{App: 1000, Namespace: 1000, Proxy: 1000, Total: 1000} }

// call is one of the first proxy.
func call(cluster string) hold.Call { return hold.Call{Proxy: first, Fleet: "apps", Cluster: cluster} }

// TestWhoWaits is the table of verdicts.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	moved := call("shop/stable")
	moved.Fleet = "foreign"
	change := func(change func(*hold.Call)) hold.Call {
		changed := call("web")
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		call hold.Call
		want hold.Verdict
	}{
		"a request":                     {call("shop/stable"), hold.Wait},
		"a cluster of nobody":           {call("shop/gone"), hold.Unknown},
		"an app of another fleet":       {call("foreign"), hold.Unknown},
		"a proxy of another fleet":      {moved, hold.Unknown},
		"an app that nothing may start": {call("other"), hold.Paused},
		"a health check's path":         {change(func(c *hold.Call) { c.Path = "/healthz" }), hold.Probe},
		"a path below it":               {change(func(c *hold.Call) { c.Path = "/healthz/x" }), hold.Wait},
		"a browser that opens a page":   {change(func(c *hold.Call) { c.IsPageView = true }), hold.Page},
		"one that the net has caught":   {change(func(c *hold.Call) { c.IsPageView, c.IsCaught = true, true }), hold.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := room(wide())
			r.SetApp(other, hold.App{Fleet: "apps", Clusters: []string{"other"}, IsPaused: true})
			r.SetApp(web, hold.App{Fleet: "apps", Clusters: []string{"web"}, Patience: time.Minute, HealthPath: "/healthz", Page: new(waitingpage.Default())})
			ticket, app, got := r.Enter(c.call)
			if got != c.want || (got == hold.Wait) != (ticket > 0) || (got == hold.Wait || got == hold.Page) != (app.Patience == time.Minute) {
				t.Errorf("ticket %d, %+v, verdict %d, want %d", ticket, app, got, c.want)
			}
		})
	}
}

// TestLimits fills each limit: what comes then is refused, until somebody leaves, and others are not concerned.
func TestLimits(t *testing.T) {
	t.Parallel()
	ofSecond := call("other")
	ofSecond.Proxy = second
	ofForeign := hold.Call{Proxy: second, Fleet: "foreign", Cluster: "foreign"}
	set := func(change func(*hold.Limits)) hold.Limits {
		limits := wide()
		change(&limits)
		return limits
	}
	for name, c := range map[string]struct {
		limits hold.Limits
		fill   []hold.Call
		over   hold.Call
		beside *hold.Call
	}{
		"app": {
			set(func(l *hold.Limits) { l.App = 2 }),
			[]hold.Call{call("shop/stable"), call("shop/canary")},
			call("shop/stable"), new(call("other")),
		},
		"namespace": {
			set(func(l *hold.Limits) { l.Namespace = 2 }),
			[]hold.Call{call("shop/stable"), ofSecond},
			call("other"), &ofForeign,
		},
		"proxy": {
			set(func(l *hold.Limits) { l.Proxy = 2 }),
			[]hold.Call{call("shop/stable"), call("other")},
			call("other"), &ofSecond,
		},
		"total": {
			set(func(l *hold.Limits) { l.Total = 2 }),
			[]hold.Call{call("shop/stable"), ofForeign},
			ofSecond, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := room(c.limits)
			var tickets []hold.Ticket
			for _, each := range c.fill {
				ticket, _, verdict := r.Enter(each)
				if verdict != hold.Wait {
					t.Fatalf("%+v: verdict %d", each, verdict)
				}
				tickets = append(tickets, ticket)
			}
			if _, _, verdict := r.Enter(c.over); verdict != hold.Full {
				t.Errorf("one too many: verdict %d", verdict)
			}
			if c.beside != nil {
				if _, _, verdict := r.Enter(*c.beside); verdict != hold.Wait {
					t.Errorf("one that is not concerned: verdict %d", verdict)
				}
			}
			r.Leave(tickets[0])
			r.Leave(tickets[0]) // It leaves once.
			if _, _, verdict := r.Enter(c.over); verdict != hold.Wait {
				t.Errorf("after one has left: verdict %d", verdict)
			}
			if _, _, verdict := r.Enter(c.over); verdict != hold.Full {
				t.Errorf("one too many again: verdict %d", verdict)
			}
		})
	}
}

// TestReleaseIsInOrder: the oldest first, of one proxy and of what it serves.
func TestReleaseIsInOrder(t *testing.T) {
	t.Parallel()
	r := room(wide())
	var want []hold.Ticket
	for i := range 6 {
		ticket, _, _ := r.Enter(call("shop/stable"))
		if want = append(want, ticket); i == 1 {
			r.Leave(ticket)
			want = want[:1]
		}
		r.Enter(call("shop/canary"))
		elsewhere := call("shop/stable")
		elsewhere.Proxy = second
		r.Enter(elsewhere)
	}
	for _, want := range [][]hold.Ticket{want[:3], want[3:], nil} {
		if diff := cmp.Diff(want, r.Release(first, served("shop/stable"), 3)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if r.Waits(first, "shop/stable") || !r.Waits(second, "shop/stable") || !r.Waits(first, "shop/canary") {
		t.Error("who waits is not who was not released")
	}
	if gone := r.RemoveProxy(first); len(gone) != 6 || r.Waits(first, "shop/canary") || !r.Waits(second, "shop/stable") {
		t.Errorf("%v leave with their proxy, or others do", gone)
	}
}

// served are the clusters that a proxy serves.
func served(clusters ...string) func(string) bool {
	return func(cluster string) bool { return slices.Contains(clusters, cluster) }
}

// TestReleaseTakesTurns: one request of each cluster in turn, and the next time with the one after.
func TestReleaseTakesTurns(t *testing.T) {
	t.Parallel()
	r := room(wide())
	owners := map[hold.Ticket]string{}
	for _, cluster := range []string{"shop/stable", "shop/stable", "shop/stable", "shop/stable", "shop/canary", "shop/canary", "other"} {
		ticket, _, _ := r.Enter(call(cluster))
		owners[ticket] = cluster
	}
	for _, want := range [][]string{{"other", "shop/canary"}, {"shop/stable", "shop/canary"}, {"shop/stable", "shop/stable"}, {"shop/stable"}} {
		var got []string
		for _, ticket := range r.Release(first, served("other", "shop/canary", "shop/stable"), 2) {
			got = append(got, owners[ticket])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestWhoWaitsInVain: a backend that an object no longer has, and an object that is paused or gone.
func TestWhoWaitsInVain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*hold.Room) map[hold.Ticket]hold.Verdict
		want   map[hold.Ticket]hold.Verdict
	}{
		"its backend goes": {func(r *hold.Room) map[hold.Ticket]hold.Verdict {
			return r.SetApp(shop, hold.App{Fleet: "apps", Clusters: []string{"shop/stable"}})
		}, map[hold.Ticket]hold.Verdict{2: hold.Unknown}},
		"it is paused": {func(r *hold.Room) map[hold.Ticket]hold.Verdict {
			return r.SetApp(shop, hold.App{Fleet: "apps", Clusters: []string{"shop/stable", "shop/canary"}, IsPaused: true})
		}, map[hold.Ticket]hold.Verdict{1: hold.Paused, 2: hold.Paused}},
		"it goes": {
			func(r *hold.Room) map[hold.Ticket]hold.Verdict { return r.RemoveApp(shop) },
			map[hold.Ticket]hold.Verdict{1: hold.Unknown, 2: hold.Unknown},
		},
		"nothing of it changes": {func(r *hold.Room) map[hold.Ticket]hold.Verdict {
			return r.SetApp(shop, hold.App{Fleet: "apps", Clusters: []string{"shop/canary", "shop/stable"}})
		}, map[hold.Ticket]hold.Verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := room(wide())
			r.Enter(call("shop/stable"))
			r.Enter(call("shop/canary"))
			r.Enter(call("other"))
			if diff := cmp.Diff(c.want, c.change(r)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got, want := r.Counts()[shop].Waiting, 2-len(c.want); got != want {
				t.Errorf("%d wait, want %d", got, want)
			}
		})
	}
}

// TestCountsAddUp compares what is counted with those who wait, whoever comes and goes.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r := room(hold.Limits{App: 8, Namespace: 10, Proxy: 9, Total: 12})
	type waiter struct {
		key      ir.Key
		isCaught bool
	}
	waiting := map[hold.Ticket]waiter{}
	owners := map[string]ir.Key{"shop/stable": shop, "shop/canary": shop, "other": other}
	clusters := []string{"shop/stable", "shop/canary", "other"}
	for step := range 20_000 {
		cluster := clusters[random.IntN(len(clusters))]
		at := hold.Call{Proxy: []netip.Addr{first, second}[random.IntN(2)], Fleet: "apps", Cluster: cluster, IsCaught: random.IntN(3) == 0}
		switch random.IntN(4) {
		case 0, 1:
			if ticket, _, verdict := r.Enter(at); verdict == hold.Wait {
				waiting[ticket] = waiter{owners[cluster], at.IsCaught}
			}
		case 2:
			for ticket := range waiting {
				r.Leave(ticket)
				delete(waiting, ticket)
				break
			}
		default:
			for _, ticket := range r.Release(at.Proxy, served(cluster), random.IntN(4)) {
				delete(waiting, ticket)
			}
		}
		want := map[ir.Key]hold.Count{}
		for _, each := range waiting {
			count := want[each.key]
			count.Waiting++
			if each.isCaught {
				count.Caught++
			}
			want[each.key] = count
		}
		if diff := cmp.Diff(want, r.Counts()); diff != "" {
			t.Fatal(fmt.Sprintf("step %d, -want +got:\n", step), diff)
		}
	}
	if len(waiting) == 0 {
		t.Error("nobody waited in the end: the test shows little")
	}
}
