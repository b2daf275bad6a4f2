package holding_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

var (
	first, second = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	shop, other   = model.Key{Namespace: "apps", Name: "shop"}, model.Key{Namespace: "apps", Name: "other"}
	foreign       = model.Key{Namespace: "foreign", Name: "app"}
	web           = model.Key{Namespace: "apps", Name: "web"}
)

// room has three apps of two namespaces with a cluster each, and shop with two.
func room(limits holding.Limits) *holding.Room {
	r := holding.NewRoom(limits)
	r.SetApp(shop, holding.App{Fleet: "apps", Clusters: []string{"shop/stable", "shop/canary"}, Patience: time.Minute})
	r.SetApp(other, holding.App{Fleet: "apps", Clusters: []string{"other"}})
	r.SetApp(foreign, holding.App{Fleet: "foreign", Clusters: []string{"foreign"}})
	return r
}

// wide are Limits that no test reaches.
func wide() holding.Limits { return holding.Limits{App: 1000, Namespace: 1000, Proxy: 1000, Total: 1000} }

// call is one of the first proxy.
func call(cluster string) holding.Call { return holding.Call{Proxy: first, Fleet: "apps", Cluster: cluster} }

// TestWhoWaits is the table of verdicts.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	moved := call("shop/stable")
	moved.Fleet = "foreign"
	change := func(change func(*holding.Call)) holding.Call {
		changed := call("web")
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		call holding.Call
		want holding.Verdict
	}{
		"a request":                     {call("shop/stable"), holding.Wait},
		"a cluster of nobody":           {call("shop/gone"), holding.Unknown},
		"an app of another fleet":       {call("foreign"), holding.Unknown},
		"a proxy of another fleet":      {moved, holding.Unknown},
		"an app that nothing may start": {call("other"), holding.Paused},
		"a health check's path":         {change(func(c *holding.Call) { c.Path = "/healthz" }), holding.Probe},
		"a path below it":               {change(func(c *holding.Call) { c.Path = "/healthz/x" }), holding.Wait},
		"a browser that opens a page":   {change(func(c *holding.Call) { c.IsPageView = true }), holding.Page},
		"one that the net has caught":   {change(func(c *holding.Call) { c.IsPageView, c.IsCaught = true, true }), holding.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := room(wide())
			r.SetApp(other, holding.App{Fleet: "apps", Clusters: []string{"other"}, IsPaused: true})
			r.SetApp(web, holding.App{Fleet: "apps", Clusters: []string{"web"}, Patience: time.Minute, HealthPath: "/healthz", Page: new(page.Default())})
			ticket, app, got := r.Enter(c.call)
			if got != c.want || (got == holding.Wait) != (ticket > 0) || (got == holding.Wait || got == holding.Page) != (app.Patience == time.Minute) {
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
	ofForeign := holding.Call{Proxy: second, Fleet: "foreign", Cluster: "foreign"}
	set := func(change func(*holding.Limits)) holding.Limits {
		limits := wide()
		change(&limits)
		return limits
	}
	for name, c := range map[string]struct {
		limits holding.Limits
		fill   []holding.Call
		over   holding.Call
		beside *holding.Call
	}{
		"app": {
			set(func(l *holding.Limits) { l.App = 2 }),
			[]holding.Call{call("shop/stable"), call("shop/canary")},
			call("shop/stable"), new(call("other")),
		},
		"namespace": {
			set(func(l *holding.Limits) { l.Namespace = 2 }),
			[]holding.Call{call("shop/stable"), ofSecond},
			call("other"), &ofForeign,
		},
		"proxy": {
			set(func(l *holding.Limits) { l.Proxy = 2 }),
			[]holding.Call{call("shop/stable"), call("other")},
			call("other"), &ofSecond,
		},
		"total": {
			set(func(l *holding.Limits) { l.Total = 2 }),
			[]holding.Call{call("shop/stable"), ofForeign},
			ofSecond, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := room(c.limits)
			var tickets []holding.Ticket
			for _, each := range c.fill {
				ticket, _, verdict := r.Enter(each)
				if verdict != holding.Wait {
					t.Fatalf("%+v: verdict %d", each, verdict)
				}
				tickets = append(tickets, ticket)
			}
			if _, _, verdict := r.Enter(c.over); verdict != holding.Full {
				t.Errorf("one too many: verdict %d", verdict)
			}
			if c.beside != nil {
				if _, _, verdict := r.Enter(*c.beside); verdict != holding.Wait {
					t.Errorf("one that is not concerned: verdict %d", verdict)
				}
			}
			r.Leave(tickets[0])
			r.Leave(tickets[0]) // It leaves once.
			if _, _, verdict := r.Enter(c.over); verdict != holding.Wait {
				t.Errorf("after one has left: verdict %d", verdict)
			}
			if _, _, verdict := r.Enter(c.over); verdict != holding.Full {
				t.Errorf("one too many again: verdict %d", verdict)
			}
		})
	}
}

// TestReleaseIsInOrder: the oldest first, of one proxy and of what it serves.
func TestReleaseIsInOrder(t *testing.T) {
	t.Parallel()
	r := room(wide())
	var want []holding.Ticket
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
	for _, want := range [][]holding.Ticket{want[:3], want[3:], nil} {
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
	owners := map[holding.Ticket]string{}
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
		change func(*holding.Room) map[holding.Ticket]holding.Verdict
		want   map[holding.Ticket]holding.Verdict
	}{
		"its backend goes": {func(r *holding.Room) map[holding.Ticket]holding.Verdict {
			return r.SetApp(shop, holding.App{Fleet: "apps", Clusters: []string{"shop/stable"}})
		}, map[holding.Ticket]holding.Verdict{2: holding.Unknown}},
		"it is paused": {func(r *holding.Room) map[holding.Ticket]holding.Verdict {
			return r.SetApp(shop, holding.App{Fleet: "apps", Clusters: []string{"shop/stable", "shop/canary"}, IsPaused: true})
		}, map[holding.Ticket]holding.Verdict{1: holding.Paused, 2: holding.Paused}},
		"it goes": {
			func(r *holding.Room) map[holding.Ticket]holding.Verdict { return r.RemoveApp(shop) },
			map[holding.Ticket]holding.Verdict{1: holding.Unknown, 2: holding.Unknown},
		},
		"nothing of it changes": {func(r *holding.Room) map[holding.Ticket]holding.Verdict {
			return r.SetApp(shop, holding.App{Fleet: "apps", Clusters: []string{"shop/canary", "shop/stable"}})
		}, map[holding.Ticket]holding.Verdict{}},
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
	r := room(holding.Limits{App: 8, Namespace: 10, Proxy: 9, Total: 12})
	type waiter struct {
		key      model.Key
		isCaught bool
	}
	waiting := map[holding.Ticket]waiter{}
	owners := map[string]model.Key{"shop/stable": shop, "shop/canary": shop, "other": other}
	clusters := []string{"shop/stable", "shop/canary", "other"}
	for step := range 20_000 {
		cluster := clusters[random.IntN(len(clusters))]
		at := holding.Call{Proxy: []netip.Addr{first, second}[random.IntN(2)], Fleet: "apps", Cluster: cluster, IsCaught: random.IntN(3) == 0}
		switch random.IntN(4) {
		case 0, 1:
			if ticket, _, verdict := r.Enter(at); verdict == holding.Wait {
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
		want := map[model.Key]holding.Count{}
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
