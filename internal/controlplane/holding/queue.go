// Package holding queues requests for workloads without ready endpoints: it decides which requests wait, how many may,
// and in which order they are released. It is pure: no clock, no network. Package extauthz is the service around it.
//
// A proxy sends a check for each request to a backend without ready endpoints, and waits for the response. The check is
// a [Request]. The [Queue] returns a [Waiter] for it, or the reason why it does not wait. The request is released when
// the same proxy has ACKed an endpoint: endpoints ACKed by other proxies do not count.
package holding

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Workload is the target of an HTTPScaledObject, with the settings for its queued requests.
type Workload struct {
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Clusters are the names of its clusters, one for each backend.
	Clusters []string
	// Endpoints are the numbers of ready endpoints of Clusters, in the same order. Only traces use them.
	Endpoints []int
	// Timeout is the longest time that a request waits.
	Timeout time.Duration
	// HasFailover is true if another Service answers a request after Timeout.
	HasFailover bool
	// FallbackTimeout is the Timeout of a request via the fallback listener, which the proxy's router has already sent.
	FallbackTimeout time.Duration
	// IsPaused is true if autoscaling is paused at zero replicas, so that no request may wait.
	IsPaused bool
	// HealthPath is the path of health checks that do not start the workload, "" for none.
	HealthPath string
	// Page is the page that a browser gets instead of waiting; nil for none.
	Page *page.Page
	// Placeholder is the response that every other request gets instead of waiting; nil for none.
	Placeholder *model.StaticResponse
}

// Limits are the limits of queued requests. Each is at least 1.
type Limits struct {
	// Object, Namespace and Proxy limit the requests of one HTTPScaledObject, of one namespace and of one proxy. If a
	// fleet serves workloads of several namespaces, the requests of one of them are in addition at most as many as the
	// free places of the proxy: alone it gets half of them, and two namespaces get a third each.
	Object, Namespace, Proxy int
	// Total limits the requests of this replica of the interceptor.
	Total int
}

// Request is a request to a backend without ready endpoints.
type Request struct {
	// Proxy is the address of the proxy, and Fleet its fleet.
	Proxy netip.Addr
	Fleet model.Fleet
	// Cluster is the name of the request's cluster.
	Cluster string
	// IsViaFallback is true if the proxy's router has sent the request to the fallback listener, and so counts it as
	// active already.
	IsViaFallback bool
	// Path is the request's path without the query.
	Path string
	// IsPageView is true if a browser opens a page, so that it can show a waiting page.
	IsPageView bool
	// Accept is the request's header Accept.
	Accept string
}

// Decision is the result of Enqueue.
type Decision int

const (
	// Wait means that the request is queued.
	Wait Decision = iota
	// Probe means that it is a health check: it gets a response without starting the workload.
	Probe
	// Page means that the browser gets the waiting page.
	Page
	// Placeholder means that the client gets the workload's placeholder.
	Placeholder
	// Unknown means that no workload of the proxy's fleet has the cluster.
	Unknown
	// Paused means that autoscaling of the workload is paused.
	Paused
	// Full means that a limit of queued requests is reached.
	Full
)

// Waiter identifies a queued request. Waiters increase in the order of arrival.
type Waiter uint64

// Count is the number of queued requests of a workload.
type Count struct {
	// Waiting is the number of all, and ViaFallback of those that proxies count as active already.
	Waiting, ViaFallback int
}

// slot is the place of requests in one order: those of one proxy for one cluster.
type slot struct {
	proxy   netip.Addr
	cluster string
}

// share is the part of a proxy's queue that one namespace uses.
type share struct {
	proxy     netip.Addr
	namespace string
}

// entry is a queued request.
type entry struct {
	slot
	workload      model.Key
	isViaFallback bool
}

// Queue contains the queued requests. It is not safe for concurrent use. Make it with NewQueue.
type Queue struct {
	limits    Limits
	workloads map[model.Key]Workload
	owners    map[string]model.Key // by cluster

	last         Waiter
	entries      map[Waiter]entry
	slots        map[netip.Addr]map[string]*fifo // by proxy and cluster
	lastReleased map[netip.Addr]string           // the cluster of the last released request, by proxy
	counts       map[model.Key]Count
	namespaces   map[string]int
	proxies      map[netip.Addr]int
	shares       map[share]int
	// tenants are the numbers of workloads by fleet and namespace.
	tenants map[model.Fleet]map[string]int
}

// NewQueue returns a Queue without workloads.
func NewQueue(limits Limits) *Queue {
	return &Queue{
		limits: limits, workloads: map[model.Key]Workload{}, owners: map[string]model.Key{},
		entries: map[Waiter]entry{}, slots: map[netip.Addr]map[string]*fifo{}, lastReleased: map[netip.Addr]string{},
		counts: map[model.Key]Count{}, namespaces: map[string]int{}, proxies: map[netip.Addr]int{},
		shares: map[share]int{}, tenants: map[model.Fleet]map[string]int{},
	}
}

// SetWorkload adds or changes a workload. It removes the requests that may no longer wait, and returns them with the
// Decision for each.
func (q *Queue) SetWorkload(key model.Key, workload Workload) map[Waiter]Decision {
	before, exists := q.workloads[key]
	for _, cluster := range before.Clusters {
		delete(q.owners, cluster)
	}
	if exists {
		q.countTenant(before.Fleet, key.Namespace, -1)
	}
	q.countTenant(workload.Fleet, key.Namespace, 1)
	q.workloads[key] = workload
	for _, cluster := range workload.Clusters {
		q.owners[cluster] = key
	}
	return q.evict(key)
}

// RemoveWorkload removes a workload and its requests, and returns them as SetWorkload does.
func (q *Queue) RemoveWorkload(key model.Key) map[Waiter]Decision {
	evicted := q.SetWorkload(key, Workload{})
	q.countTenant("", key.Namespace, -1)
	delete(q.workloads, key)
	return evicted
}

// countTenant adds delta to the number of workloads of a namespace in a fleet.
func (q *Queue) countTenant(fleet model.Fleet, namespace string, delta int) {
	if q.tenants[fleet] == nil {
		q.tenants[fleet] = map[string]int{}
	}
	q.tenants[fleet][namespace] += delta
	if q.tenants[fleet][namespace] == 0 {
		delete(q.tenants[fleet], namespace)
	}
	if len(q.tenants[fleet]) == 0 {
		delete(q.tenants, fleet)
	}
}

// evict removes the requests of a workload that Enqueue would no longer accept.
func (q *Queue) evict(key model.Key) map[Waiter]Decision {
	if q.counts[key].Waiting == 0 {
		return nil
	}
	evicted := map[Waiter]Decision{}
	for waiter, e := range q.entries {
		if e.workload != key {
			continue
		}
		if owner, ok := q.owners[e.cluster]; !ok || owner != key {
			evicted[waiter] = Unknown
		} else if q.workloads[key].IsPaused {
			evicted[waiter] = Paused
		}
	}
	for waiter := range evicted {
		q.Remove(waiter)
	}
	return evicted
}

// Enqueue queues a request. The Waiter is valid only with the Decision Wait, and the Workload with Wait, Page and
// Placeholder.
func (q *Queue) Enqueue(request Request) (Waiter, Workload, Decision) {
	key, isKnown := q.owners[request.Cluster]
	workload := q.workloads[key]
	switch {
	case !isKnown || workload.Fleet != request.Fleet:
		return 0, Workload{}, Unknown
	case workload.HealthPath != "" && workload.HealthPath == request.Path:
		return 0, Workload{}, Probe
	case workload.IsPaused && workload.Placeholder == nil:
		return 0, Workload{}, Paused
	case workload.IsPaused:
		return 0, workload, Placeholder
	case workload.Page != nil && request.IsPageView && !request.IsViaFallback:
		return 0, workload, Page
	case workload.Placeholder != nil:
		return 0, workload, Placeholder
	}
	waiter, isQueued := q.Add(request)
	if !isQueued {
		return 0, Workload{}, Full
	}
	return waiter, workload, Wait
}

// Add queues a request of a known workload, regardless of its other settings, unless a limit is reached.
func (q *Queue) Add(request Request) (waiter Waiter, isQueued bool) {
	key := q.owners[request.Cluster]
	if q.isFull(key, request) {
		return 0, false
	}
	q.last++
	e := entry{slot{request.Proxy, request.Cluster}, key, request.IsViaFallback}
	q.entries[q.last] = e
	if q.slots[e.proxy] == nil {
		q.slots[e.proxy] = map[string]*fifo{}
	}
	if q.slots[e.proxy][e.cluster] == nil {
		q.slots[e.proxy][e.cluster] = new(fifo)
	}
	q.slots[e.proxy][e.cluster].push(q.last)
	q.count(e, 1)
	return q.last, true
}

// OwnerOf returns the workload that a cluster belongs to.
func (q *Queue) OwnerOf(cluster string) (workload model.Key, isKnown bool) {
	workload, isKnown = q.owners[cluster]
	return workload, isKnown
}

// ClustersOf returns the names of the clusters of a workload.
func (q *Queue) ClustersOf(workload model.Key) []string { return q.workloads[workload].Clusters }

// Waiting returns the number of queued requests of a workload.
func (q *Queue) Waiting(workload model.Key) int { return q.counts[workload].Waiting }

// IsServedBy reports whether a fleet serves the workload that a cluster belongs to.
func (q *Queue) IsServedBy(cluster string, fleet model.Fleet) bool {
	key, isKnown := q.owners[cluster]
	return isKnown && q.workloads[key].Fleet == fleet
}

// isFull reports whether a limit does not allow another request.
func (q *Queue) isFull(key model.Key, request Request) bool {
	free := q.limits.Proxy - q.proxies[request.Proxy]
	isShared := len(q.tenants[request.Fleet]) > 1
	return q.counts[key].Waiting >= q.limits.Object || q.namespaces[key.Namespace] >= q.limits.Namespace ||
		free <= 0 || isShared && q.shares[share{request.Proxy, key.Namespace}] >= free ||
		len(q.entries) >= q.limits.Total
}

// Remove removes a request. Removing it again has no effect.
func (q *Queue) Remove(waiter Waiter) {
	e, isWaiting := q.entries[waiter]
	if !isWaiting {
		return
	}
	delete(q.entries, waiter)
	waiters := q.slots[e.proxy][e.cluster]
	if waiters.remove(q.Contains); waiters.waiting == 0 {
		delete(q.slots[e.proxy], e.cluster)
	}
	q.count(e, -1)
}

// count adds delta to the counts of an entry.
func (q *Queue) count(e entry, delta int) {
	now := q.counts[e.workload]
	now.Waiting += delta
	if e.isViaFallback {
		now.ViaFallback += delta
	}
	q.counts[e.workload] = now
	q.namespaces[e.workload.Namespace] += delta
	q.proxies[e.proxy] += delta
	used := share{e.proxy, e.workload.Namespace}
	if q.shares[used] += delta; q.shares[used] == 0 {
		delete(q.shares, used)
	}
	if now.Waiting == 0 {
		delete(q.counts, e.workload)
	}
	if q.namespaces[e.workload.Namespace] == 0 {
		delete(q.namespaces, e.workload.Namespace)
	}
	if q.proxies[e.proxy] == 0 {
		delete(q.proxies, e.proxy)
		delete(q.slots, e.proxy)
		delete(q.lastReleased, e.proxy)
	}
}

// Release removes and returns up to limit requests of a proxy for clusters that it serves. It takes one of each cluster
// in turn, the oldest first, so that a workload with many requests does not delay those of others.
func (q *Queue) Release(proxy netip.Addr, serves func(cluster string) bool, limit int) []Waiter {
	clusters := slices.DeleteFunc(q.ClustersAt(proxy), func(cluster string) bool { return !serves(cluster) })
	next, isPresent := slices.BinarySearch(clusters, q.lastReleased[proxy])
	if isPresent {
		next++
	}
	clusters = append(clusters[next:len(clusters):len(clusters)], clusters[:next]...)
	var released []Waiter
	for len(released) < limit && len(clusters) > 0 {
		remaining := clusters[:0]
		for _, cluster := range clusters[:min(len(clusters), limit-len(released))] {
			q.lastReleased[proxy] = cluster
			waiters := q.slots[proxy][cluster]
			waiter := waiters.first(q.Contains)
			if released = append(released, waiter); waiters.waiting > 1 {
				remaining = append(remaining, cluster)
			}
			q.Remove(waiter)
		}
		clusters = remaining
	}
	return released
}

// RemoveProxy removes and returns all requests of a proxy.
func (q *Queue) RemoveProxy(proxy netip.Addr) []Waiter {
	return q.Release(proxy, func(string) bool { return true }, q.proxies[proxy])
}

// Contains reports whether a request is still queued.
func (q *Queue) Contains(waiter Waiter) bool {
	_, isWaiting := q.entries[waiter]
	return isWaiting
}

// HasWaiter reports whether a request of a proxy is queued for a cluster.
func (q *Queue) HasWaiter(proxy netip.Addr, cluster string) bool {
	return q.slots[proxy][cluster] != nil
}

// ClustersAt returns the clusters with queued requests of a proxy, sorted.
func (q *Queue) ClustersAt(proxy netip.Addr) []string {
	return slices.Sorted(maps.Keys(q.slots[proxy]))
}

// Workloads returns the number of workloads with queued requests.
func (q *Queue) Workloads() int { return len(q.counts) }

// Counts returns the queued requests of each workload that has any.
func (q *Queue) Counts() map[model.Key]Count { return maps.Clone(q.counts) }
