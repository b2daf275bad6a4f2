// Package holding decides which requests wait for a first endpoint, how many may, and in which order they
// go on. It is pure: no clock, no network. Package hold/checks is the service around it.
//
// A proxy asks about each request for a backend without ready endpoints, and waits for the answer: a Call.
// The Room gives it a Ticket, or says why it is not to wait. It goes on when that very proxy has
// confirmed an endpoint: what other proxies have is of no use to it.
package holding

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// App is what has to be known of an HTTPScaledObject to hold its requests.
type App struct {
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Clusters are the names of its clusters, one for each backend.
	Clusters []string
	// Patience is the longest time that a request waits.
	Patience time.Duration
	// FailsOver says that another Service answers a request that has waited for that long.
	FailsOver bool
	// CaughtPatience is that of a request that the proxy's router has sent already, and waits for.
	CaughtPatience time.Duration
	// IsPaused says that nothing will start it, so that to wait is in vain.
	IsPaused bool
	// HealthPath is the path of health checks that start nothing, "" for none.
	HealthPath string
	// Page is what a browser gets, which waits in its place; nil for none.
	Page *page.Page
}

// Limits are how many requests may wait at a time. Each is at least 1.
type Limits struct {
	// App, Namespace and Proxy are those of one HTTPScaledObject, of one namespace and of one proxy.
	App, Namespace, Proxy int
	// Total is that of this replica of the interceptor.
	Total int
}

// Call is what a proxy asks.
type Call struct {
	// Proxy is the address of the proxy, and Fleet its fleet.
	Proxy netip.Addr
	Fleet model.Fleet
	// Cluster is the name of the cluster that the request is for.
	Cluster string
	// IsCaught says that the proxy's router has sent the request to the net already, and counts it as one in flight.
	IsCaught bool
	// Path is the request's path, without query.
	Path string
	// IsPageView says that a browser opens a page, so that it can show another one meanwhile.
	IsPageView bool
}

// Verdict is what becomes of a Call.
type Verdict int

const (
	// Wait says that the request waits.
	Wait Verdict = iota
	// Probe says that it is a health check: it is answered, and starts nothing.
	Probe
	// Page says that a page waits in its place.
	Page
	// Unknown says that no app of the proxy's fleet has the cluster.
	Unknown
	// Paused says that nothing will start the app.
	Paused
	// Full says that as many requests wait as may.
	Full
)

// Ticket is a request that waits. Tickets rise in the order of arrival.
type Ticket uint64

// Count is how many requests of an app wait.
type Count struct {
	// Waiting are all of them, and Caught those that proxies count as in flight already.
	Waiting, Caught int
}

// line is where requests wait in their order: those of one proxy for one cluster.
type line struct {
	proxy   netip.Addr
	cluster string
}

// place is where a Ticket waits.
type place struct {
	line
	app      model.Key
	isCaught bool
}

// Room is where requests wait. It is not safe for concurrent use. Make it with NewRoom.
type Room struct {
	limits Limits
	apps   map[model.Key]App
	owners map[string]model.Key // by cluster

	last       Ticket
	places     map[Ticket]place
	lines      map[line]*queue
	turns      map[netip.Addr]string // the cluster for which a request of the proxy went on last
	counts     map[model.Key]Count
	namespaces map[string]int
	proxies    map[netip.Addr]int
}

// NewRoom returns a Room without apps.
func NewRoom(limits Limits) *Room {
	return &Room{
		limits: limits, apps: map[model.Key]App{}, owners: map[string]model.Key{},
		places: map[Ticket]place{}, lines: map[line]*queue{}, turns: map[netip.Addr]string{},
		counts: map[model.Key]Count{}, namespaces: map[string]int{}, proxies: map[netip.Addr]int{},
	}
}

// SetApp makes an app known, or changes it. It returns the requests that now wait in vain, with the
// Verdict for them: they have left.
func (r *Room) SetApp(key model.Key, app App) map[Ticket]Verdict {
	for _, cluster := range r.apps[key].Clusters {
		delete(r.owners, cluster)
	}
	r.apps[key] = app
	for _, cluster := range app.Clusters {
		r.owners[cluster] = key
	}
	return r.sweep(key)
}

// RemoveApp forgets an app, and returns the requests that waited for it, as SetApp does.
func (r *Room) RemoveApp(key model.Key) map[Ticket]Verdict {
	swept := r.SetApp(key, App{})
	delete(r.apps, key)
	return swept
}

// sweep has the requests of an app leave that would not be let in any more.
func (r *Room) sweep(key model.Key) map[Ticket]Verdict {
	if r.counts[key].Waiting == 0 {
		return nil
	}
	swept := map[Ticket]Verdict{}
	for ticket, at := range r.places {
		if at.app != key {
			continue
		}
		if owner, isKnown := r.owners[at.cluster]; !isKnown || owner != key {
			swept[ticket] = Unknown
		} else if r.apps[key].IsPaused {
			swept[ticket] = Paused
		}
	}
	for ticket := range swept {
		r.Leave(ticket)
	}
	return swept
}

// Enter lets a request in. The Ticket means something with the Verdict Wait only, and the App with Wait and Page.
func (r *Room) Enter(call Call) (Ticket, App, Verdict) {
	key, isKnown := r.owners[call.Cluster]
	app := r.apps[key]
	switch {
	case !isKnown || app.Fleet != call.Fleet:
		return 0, App{}, Unknown
	case app.HealthPath != "" && app.HealthPath == call.Path:
		return 0, App{}, Probe
	case app.IsPaused:
		return 0, App{}, Paused
	case app.Page != nil && call.IsPageView && !call.IsCaught:
		return 0, app, Page
	case r.isFull(key, call.Proxy):
		return 0, App{}, Full
	}
	r.last++
	at := place{line{call.Proxy, call.Cluster}, key, call.IsCaught}
	r.places[r.last] = at
	if r.lines[at.line] == nil {
		r.lines[at.line] = new(queue)
	}
	r.lines[at.line].push(r.last)
	r.count(at, 1)
	return r.last, app, Wait
}

// Owner is the app that a cluster belongs to.
func (r *Room) Owner(cluster string) (app model.Key, isKnown bool) {
	app, isKnown = r.owners[cluster]
	return app, isKnown
}

// isFull says that there is no room for one more request.
func (r *Room) isFull(key model.Key, proxy netip.Addr) bool {
	return r.counts[key].Waiting >= r.limits.App || r.namespaces[key.Namespace] >= r.limits.Namespace ||
		r.proxies[proxy] >= r.limits.Proxy || len(r.places) >= r.limits.Total
}

// Leave frees the place of a request. One that has left already may leave again.
func (r *Room) Leave(ticket Ticket) {
	at, waits := r.places[ticket]
	if !waits {
		return
	}
	delete(r.places, ticket)
	own := r.lines[at.line]
	if own.leave(r.Holds); own.waiting == 0 {
		delete(r.lines, at.line)
	}
	r.count(at, -1)
}

// count counts a request in, or out.
func (r *Room) count(at place, by int) {
	now := r.counts[at.app]
	now.Waiting += by
	if at.isCaught {
		now.Caught += by
	}
	r.counts[at.app] = now
	r.namespaces[at.app.Namespace] += by
	r.proxies[at.proxy] += by
	if now.Waiting == 0 {
		delete(r.counts, at.app)
	}
	if r.namespaces[at.app.Namespace] == 0 {
		delete(r.namespaces, at.app.Namespace)
	}
	if r.proxies[at.proxy] == 0 {
		delete(r.proxies, at.proxy)
		delete(r.turns, at.proxy)
	}
}

// Release lets up to so many requests go that wait at a proxy for clusters which it serves: of each cluster in
// turn one, the oldest first, so that nobody waits for the crowd of another app. They have left.
func (r *Room) Release(proxy netip.Addr, serves func(cluster string) bool, most int) []Ticket {
	clusters := slices.DeleteFunc(r.clustersAt(proxy), func(cluster string) bool { return !serves(cluster) })
	after, isThere := slices.BinarySearch(clusters, r.turns[proxy])
	if isThere {
		after++
	}
	clusters = append(clusters[after:len(clusters):len(clusters)], clusters[:after]...)
	var released []Ticket
	for len(released) < most && len(clusters) > 0 {
		left := clusters[:0]
		for _, cluster := range clusters[:min(len(clusters), most-len(released))] {
			at := line{proxy, cluster}
			r.turns[proxy] = cluster
			ticket := r.lines[at].first(r.Holds)
			if released = append(released, ticket); r.lines[at].waiting > 1 {
				left = append(left, cluster)
			}
			r.Leave(ticket)
		}
		clusters = left
	}
	return released
}

// RemoveProxy has all requests leave that wait at a proxy, and returns them.
func (r *Room) RemoveProxy(proxy netip.Addr) []Ticket {
	return r.Release(proxy, func(string) bool { return true }, r.proxies[proxy])
}

// Holds says whether a request still waits.
func (r *Room) Holds(ticket Ticket) bool {
	_, waits := r.places[ticket]
	return waits
}

// Waits says whether a request waits at a proxy for a cluster.
func (r *Room) Waits(proxy netip.Addr, cluster string) bool {
	return r.lines[line{proxy, cluster}] != nil
}

// clustersAt are the clusters that requests wait for at a proxy, sorted.
func (r *Room) clustersAt(proxy netip.Addr) []string {
	if r.proxies[proxy] == 0 {
		return nil
	}
	var clusters []string
	for at := range r.lines {
		if at.proxy == proxy {
			clusters = append(clusters, at.cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}

// Apps is how many apps have a request that waits.
func (r *Room) Apps() int { return len(r.counts) }

// Counts are how many requests of each app wait; apps of which none does are not there.
func (r *Room) Counts() map[model.Key]Count { return maps.Clone(r.counts) }
