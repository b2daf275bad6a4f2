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

// newQueue returns a Queue with three workloads of two namespaces. shop has two clusters, and each other one has one.
func newQueue(limits holding.Limits) *holding.Queue {
	q := holding.NewQueue(limits)
	q.SetWorkload(
		shop, holding.Workload{Fleet: "apps", Clusters: []string{"shop/stable", "shop/canary"}, Timeout: time.Minute},
	)
	q.SetWorkload(other, holding.Workload{Fleet: "apps", Clusters: []string{"other"}})
	q.SetWorkload(foreign, holding.Workload{Fleet: "foreign", Clusters: []string{"foreign"}})
	return q
}

// wide returns Limits that no test reaches.
func wide() holding.Limits {
	return holding.Limits{Object: 1000, Namespace: 1000, Proxy: 1000, Total: 1000}
}

// request returns a request of the first proxy.
func request(cluster string) holding.Request {
	return holding.Request{Proxy: first, Fleet: "apps", Cluster: cluster}
}

// TestDecisions checks the Decision for each kind of request.
func TestDecisions(t *testing.T) {
	t.Parallel()
	moved := request("shop/stable")
	moved.Fleet = "foreign"
	change := func(change func(*holding.Request)) holding.Request {
		changed := request("web")
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		request holding.Request
		want    holding.Decision
	}{
		"a request":                    {request("shop/stable"), holding.Wait},
		"a cluster without a workload": {request("shop/gone"), holding.Unknown},
		"a workload of another fleet":  {request("foreign"), holding.Unknown},
		"a proxy of another fleet":     {moved, holding.Unknown},
		"a paused workload":            {request("other"), holding.Paused},
		"a health check's path":        {change(func(c *holding.Request) { c.Path = "/healthz" }), holding.Probe},
		"a path below it":              {change(func(c *holding.Request) { c.Path = "/healthz/x" }), holding.Wait},
		"a browser that opens a page":  {change(func(c *holding.Request) { c.IsPageView = true }), holding.Page},
		"a request via the fallback listener": {
			change(func(c *holding.Request) { c.IsPageView, c.IsViaFallback = true, true }), holding.Wait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(wide())
			q.SetWorkload(other, holding.Workload{Fleet: "apps", Clusters: []string{"other"}, IsPaused: true})
			q.SetWorkload(
				web,
				holding.Workload{
					Fleet: "apps", Clusters: []string{"web"}, Timeout: time.Minute, HealthPath: "/healthz", Page: new(page.Default()),
				},
			)
			waiter, workload, got := q.Enqueue(c.request)
			if got != c.want || (got == holding.Wait) != (waiter > 0) || (got == holding.Wait ||
				got == holding.Page) != (workload.Timeout == time.Minute) {
				t.Errorf("waiter %d, %+v, decision %d, want %d", waiter, workload, got, c.want)
			}
		})
	}
}

// TestLimits fills each limit: further requests are rejected until one is removed, and requests outside the limit are
// not.
func TestLimits(t *testing.T) {
	t.Parallel()
	ofSecond := request("other")
	ofSecond.Proxy = second
	ofForeign := holding.Request{Proxy: second, Fleet: "foreign", Cluster: "foreign"}
	set := func(change func(*holding.Limits)) holding.Limits {
		limits := wide()
		change(&limits)
		return limits
	}
	for name, c := range map[string]struct {
		limits holding.Limits
		fill   []holding.Request
		over   holding.Request
		other  *holding.Request
	}{
		"object": {
			set(func(l *holding.Limits) { l.Object = 2 }),
			[]holding.Request{request("shop/stable"), request("shop/canary")},
			request("shop/stable"), new(request("other")),
		},
		"namespace": {
			set(func(l *holding.Limits) { l.Namespace = 2 }),
			[]holding.Request{request("shop/stable"), ofSecond},
			request("other"), &ofForeign,
		},
		"proxy": {
			set(func(l *holding.Limits) { l.Proxy = 2 }),
			[]holding.Request{request("shop/stable"), request("other")},
			request("other"), &ofSecond,
		},
		"total": {
			set(func(l *holding.Limits) { l.Total = 2 }),
			[]holding.Request{request("shop/stable"), ofForeign},
			ofSecond, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(c.limits)
			var waiters []holding.Waiter
			for _, each := range c.fill {
				waiter, _, decision := q.Enqueue(each)
				if decision != holding.Wait {
					t.Fatalf("%+v: decision %d", each, decision)
				}
				waiters = append(waiters, waiter)
			}
			if _, _, decision := q.Enqueue(c.over); decision != holding.Full {
				t.Errorf("one too many: decision %d", decision)
			}
			if c.other != nil {
				if _, _, decision := q.Enqueue(*c.other); decision != holding.Wait {
					t.Errorf("a request outside the limit: decision %d", decision)
				}
			}
			q.Remove(waiters[0])
			q.Remove(waiters[0]) // The second call has no effect.
			if _, _, decision := q.Enqueue(c.over); decision != holding.Wait {
				t.Errorf("after a removal: decision %d", decision)
			}
			if _, _, decision := q.Enqueue(c.over); decision != holding.Full {
				t.Errorf("one too many again: decision %d", decision)
			}
		})
	}
}

// TestFairShare has workloads of three namespaces in the shared fleet. Two of them never start: the third one still gets
// places of the proxy. Alone in its fleet, a namespace gets all places.
func TestFairShare(t *testing.T) {
	t.Parallel()
	q := holding.NewQueue(holding.Limits{Object: 1000, Namespace: 1000, Proxy: 120, Total: 1000})
	fill := func(fleet model.Fleet, clusters ...string) int {
		for count := 0; ; count++ {
			request := holding.Request{Proxy: first, Fleet: fleet, Cluster: clusters[count%len(clusters)]}
			if _, _, decision := q.Enqueue(request); decision != holding.Wait {
				return count
			}
		}
	}
	set := func(fleet model.Fleet, namespace, name string) {
		q.SetWorkload(model.Key{Namespace: namespace, Name: name},
			holding.Workload{Fleet: fleet, Clusters: []string{string(fleet) + namespace + name}})
	}
	set("own", "own", "shop")
	if got := fill("own", "ownownshop"); got != 120 {
		t.Errorf("alone in its fleet: %d requests, want 120", got)
	}
	q.RemoveProxy(first)
	for _, namespace := range []string{"dead", "slow", "third"} {
		set("shared", namespace, "a")
		set("shared", namespace, "b")
	}
	for _, c := range []struct {
		clusters []string
		want     int
	}{
		{[]string{"shareddeada", "shareddeadb"}, 60}, // half of 120
		{[]string{"sharedslowa", "sharedslowb"}, 30}, // half of 60
		{[]string{"shareddeada"}, 0},
		{[]string{"sharedthirda"}, 15},
	} {
		if got := fill("shared", c.clusters...); got != c.want {
			t.Errorf("%v: %d requests, want %d", c.clusters, got, c.want)
		}
	}
	q.RemoveProxy(first)
	for _, namespace := range []string{"dead", "slow"} {
		q.RemoveWorkload(model.Key{Namespace: namespace, Name: "a"})
		set("elsewhere", namespace, "b")
	}
	if got := fill("shared", "sharedthirda"); got != 120 {
		t.Errorf("alone after the others have left: %d requests, want 120", got)
	}
}

// TestReleaseIsInOrder checks that Release returns the oldest first, of one proxy and the clusters that it serves.
func TestReleaseIsInOrder(t *testing.T) {
	t.Parallel()
	q := newQueue(wide())
	var want []holding.Waiter
	for i := range 6 {
		waiter, _, _ := q.Enqueue(request("shop/stable"))
		if want = append(want, waiter); i == 1 {
			q.Remove(waiter)
			want = want[:1]
		}
		q.Enqueue(request("shop/canary"))
		elsewhere := request("shop/stable")
		elsewhere.Proxy = second
		q.Enqueue(elsewhere)
	}
	for _, want := range [][]holding.Waiter{want[:3], want[3:], nil} {
		if diff := cmp.Diff(want, q.Release(first, served("shop/stable"), 3)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if q.HasWaiter(first, "shop/stable") || !q.HasWaiter(second, "shop/stable") || !q.HasWaiter(first, "shop/canary") {
		t.Error("the waiters are not those that were not released")
	}
	if removed := q.RemoveProxy(first); len(removed) != 6 || q.HasWaiter(first, "shop/canary") ||
		!q.HasWaiter(second, "shop/stable") {
		t.Errorf("RemoveProxy = %v, want the 6 requests of the proxy", removed)
	}
}

// served returns a function that is true for some clusters.
func served(clusters ...string) func(string) bool {
	return func(cluster string) bool { return slices.Contains(clusters, cluster) }
}

// TestReleaseTakesTurns checks that Release takes one request of each cluster in turn, and continues there at the next
// call.
func TestReleaseTakesTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(wide())
	owners := map[holding.Waiter]string{}
	for _, cluster := range []string{
		"shop/stable", "shop/stable", "shop/stable", "shop/stable", "shop/canary", "shop/canary", "other",
	} {
		waiter, _, _ := q.Enqueue(request(cluster))
		owners[waiter] = cluster
	}
	for _, want := range [][]string{
		{"other", "shop/canary"}, {"shop/stable", "shop/canary"}, {"shop/stable", "shop/stable"}, {"shop/stable"},
	} {
		var got []string
		for _, waiter := range q.Release(first, served("other", "shop/canary", "shop/stable"), 2) {
			got = append(got, owners[waiter])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestEviction removes a backend of a workload, pauses it, and removes it.
func TestEviction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*holding.Queue) map[holding.Waiter]holding.Decision
		want   map[holding.Waiter]holding.Decision
	}{
		"its backend is removed": {func(q *holding.Queue) map[holding.Waiter]holding.Decision {
			return q.SetWorkload(shop, holding.Workload{Fleet: "apps", Clusters: []string{"shop/stable"}})
		}, map[holding.Waiter]holding.Decision{2: holding.Unknown}},
		"it is paused": {func(q *holding.Queue) map[holding.Waiter]holding.Decision {
			return q.SetWorkload(
				shop, holding.Workload{Fleet: "apps", Clusters: []string{"shop/stable", "shop/canary"}, IsPaused: true},
			)
		}, map[holding.Waiter]holding.Decision{1: holding.Paused, 2: holding.Paused}},
		"it is removed": {
			func(q *holding.Queue) map[holding.Waiter]holding.Decision { return q.RemoveWorkload(shop) },
			map[holding.Waiter]holding.Decision{1: holding.Unknown, 2: holding.Unknown},
		},
		"it does not change": {func(q *holding.Queue) map[holding.Waiter]holding.Decision {
			return q.SetWorkload(shop, holding.Workload{Fleet: "apps", Clusters: []string{"shop/canary", "shop/stable"}})
		}, map[holding.Waiter]holding.Decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(wide())
			q.Enqueue(request("shop/stable"))
			q.Enqueue(request("shop/canary"))
			q.Enqueue(request("other"))
			if diff := cmp.Diff(c.want, c.change(q)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got, want := q.Counts()[shop].Waiting, 2-len(c.want); got != want {
				t.Errorf("%d wait, want %d", got, want)
			}
		})
	}
}

// TestCountsAddUp compares Counts with the waiters after random operations.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	q := newQueue(holding.Limits{Object: 8, Namespace: 10, Proxy: 9, Total: 12})
	type queued struct {
		key           model.Key
		isViaFallback bool
	}
	waiting := map[holding.Waiter]queued{}
	owners := map[string]model.Key{"shop/stable": shop, "shop/canary": shop, "other": other}
	clusters := []string{"shop/stable", "shop/canary", "other"}
	for step := range 20_000 {
		cluster := clusters[random.IntN(len(clusters))]
		at := holding.Request{
			Proxy: []netip.Addr{first, second}[random.IntN(2)], Fleet: "apps", Cluster: cluster,
			IsViaFallback: random.IntN(3) == 0,
		}
		switch random.IntN(4) {
		case 0, 1:
			if waiter, _, decision := q.Enqueue(at); decision == holding.Wait {
				waiting[waiter] = queued{owners[cluster], at.IsViaFallback}
			}
		case 2:
			for waiter := range waiting {
				q.Remove(waiter)
				delete(waiting, waiter)
				break
			}
		default:
			for _, waiter := range q.Release(at.Proxy, served(cluster), random.IntN(4)) {
				delete(waiting, waiter)
			}
		}
		want := map[model.Key]holding.Count{}
		for _, each := range waiting {
			count := want[each.key]
			count.Waiting++
			if each.isViaFallback {
				count.ViaFallback++
			}
			want[each.key] = count
		}
		if diff := cmp.Diff(want, q.Counts()); diff != "" {
			t.Fatal(fmt.Sprintf("step %d, -want +got:\n", step), diff)
		}
	}
	if len(waiting) == 0 {
		t.Error("no request waits at the end: the test proves little")
	}
}
