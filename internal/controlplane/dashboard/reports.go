package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// retryPause is the pause after a failed stream of reports.
const retryPause = time.Second

// reports are the reports of all replicas while there are viewers. It is safe for concurrent use.
type reports struct {
	hub *Hub

	mu sync.Mutex
	// own is the report of this replica, and others are those of the other replicas by name.
	own    metrics.Report
	others map[string]metrics.Report
	names  []string // of the other replicas
	// changed are the objects with another demand since the last call of take, as <namespace>/<name>. isAny is true if it
	// may be any object.
	changed map[string]struct{}
	isAny   bool
	arrived chan struct{} // receives one element at each report
}

// newReports returns empty reports.
func newReports(hub *Hub) *reports {
	return &reports{
		hub: hub, others: map[string]metrics.Report{}, changed: map[string]struct{}{}, arrived: make(chan struct{}, 1),
	}
}

// follow receives the reports of the other replicas until ctx ends.
func (r *reports) follow(ctx context.Context) {
	if r.hub.options.WatchReplica == nil {
		<-ctx.Done()
		return
	}
	server.RunEach(ctx, func() []endpoints.Pod {
		others := r.hub.others()
		r.setNames(others)
		return others
	}, r.hub.moved, r.keepWatching)
}

// setNames sets the names of the other replicas.
func (r *reports) setNames(others []endpoints.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names, r.isAny = nil, true
	for _, pod := range others {
		r.names = append(r.names, pod.Name)
	}
}

// keepWatching receives the reports of one replica until ctx ends.
func (r *reports) keepWatching(ctx context.Context, replica endpoints.Pod) {
	defer r.forget(replica.Name)
	for ctx.Err() == nil {
		// An unreachable replica is shown on the page as one without a report.
		_ = r.hub.options.WatchReplica(ctx, replica, func(report metrics.Report) { r.apply(replica.Name, report) })
		r.forget(replica.Name)
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// apply applies a report of another replica.
func (r *reports) apply(name string, report metrics.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, isKnown := r.others[name]
	if !isKnown && (report.ChangesOnly || report.QueuedOnly) {
		return // It has no base.
	}
	r.note(report.Diff(before))
	r.others[name] = report.ApplyTo(before)
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// forget drops the report of another replica.
func (r *reports) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, isKnown := r.others[name]; isKnown {
		delete(r.others, name)
		r.isAny = true
	}
}

// note notes changed objects. The caller holds the lock.
func (r *reports) note(names []string, isAny bool) {
	r.isAny = r.isAny || isAny
	for _, name := range names {
		r.changed[name] = struct{}{}
	}
}

// take updates the report of this replica. It returns the objects with another demand since the last call; isAny is
// true if it may be any object.
func (r *reports) take() (changed []model.Key, isAny bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queued := r.own.Queued
	changes := r.hub.options.Changes(&r.own)
	r.note(changes.Diff(metrics.Report{Queued: queued, Fleets: changes.Fleets}))
	r.isAny = r.isAny || changes.Fleets != nil
	for name := range r.changed {
		namespace, object, _ := strings.Cut(name, "/")
		changed = append(changed, model.Key{Namespace: namespace, Name: object})
	}
	isAny = r.isAny
	r.changed, r.isAny = map[string]struct{}{}, false
	return changed, isAny
}

// read calls visit with the reports of all replicas, and the names of those without one. visit must not keep them.
func (r *reports) read(visit func(all []metrics.Report, absent []string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []metrics.Report{r.own}
	for _, report := range r.others {
		all = append(all, report)
	}
	visit(all, r.absent())
}

// absent returns the names of the replicas without a report, sorted. The caller holds the lock.
func (r *reports) absent() (absent []string) {
	for _, name := range r.names {
		if _, isKnown := r.others[name]; !isKnown {
			absent = append(absent, name)
		}
	}
	slices.Sort(absent)
	return absent
}

// demandOf returns view.DemandOf for objects.
func (r *reports) demandOf(keys []model.Key) map[model.Key]view.Demand {
	demands := make(map[model.Key]view.Demand, len(keys))
	r.read(func(all []metrics.Report, absent []string) {
		for _, key := range keys {
			demands[key], _ = view.DemandOf(key, all, absent)
		}
	})
	return demands
}

// interceptors returns the replicas with and without a report.
func (r *reports) interceptors() Interceptors {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := Interceptors{Replica: r.hub.options.Replica, Reports: []string{r.hub.options.Replica}, Absent: r.absent()}
	for name := range r.others {
		found.Reports = append(found.Reports, name)
	}
	slices.Sort(found.Reports)
	if found.Absent == nil {
		found.Absent = []string{}
	}
	return found
}

// hasAll reports whether all of the other replicas have reported.
func (r *reports) hasAll(others []endpoints.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(others, func(pod endpoints.Pod) bool {
		_, isKnown := r.others[pod.Name]
		return !isKnown
	})
}

// Interceptors are the replicas whose counts the page includes, and those without a report.
type Interceptors struct {
	// Replica is the one that serves the page.
	Replica string   `json:"replica"`
	Reports []string `json:"reports"`
	Absent  []string `json:"absent"`
}
