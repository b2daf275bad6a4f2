package dashboard

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// Interval is the time between two updates of the viewers.
	Interval = time.Second
	// MaxRows limits the rows of one update. The others follow with the next ones.
	MaxRows = 1000
	// MaxViewers limits the streams, and the other requests for objects that run at the same time.
	MaxViewers = 256
	// MaxViewersOfUser is the same limit for one user with tokens.
	MaxViewersOfUser = 64
	// localViewers are reserved for local callers.
	localViewers = 32
	// linger is how long the Hub continues without viewers, for one that connects again.
	linger = 10 * time.Second
	// warmUp is how long the first viewer waits for the reports of other replicas.
	warmUp = 1500 * time.Millisecond
	// MaxHistories limits the objects with a history, which take up to 8 kB each.
	MaxHistories = 1000
)

// Options are the dependencies of a Hub. WatchReplica and Workload are optional.
type Options struct {
	// Replica is the name of this replica.
	Replica string
	// Now is the clock.
	Now func() time.Time
	// Changes returns what has changed since the whole report last of this replica, and updates last.
	Changes func(last *metrics.Report) metrics.Report
	// WatchReplica calls receive with the reports of another replica until ctx ends or the stream fails.
	WatchReplica func(ctx context.Context, replica endpoints.Pod, receive func(metrics.Report)) error
	// Workload reads what the API server has about the workload of an object. Failures are notes of the result.
	Workload func(ctx context.Context, source view.Source) view.Workload
	// Logger logs panics, which cost only the object that is the reason.
	Logger *slog.Logger
}

// Hub collects what viewers see. Make it with New. It is safe for concurrent use.
type Hub struct {
	options Options
	joining chan *viewer
	leaving chan *viewer
	stopped chan struct{} // closed when Run ends

	mu        sync.Mutex // guards the fields below; Observe does not wait for anything else
	objects   map[model.Key]view.Source
	histories map[model.Key]view.History
	replicas  []endpoints.Pod // the other ones
	moved     chan struct{}   // receives one element when replicas changes
	// touched are the objects that have changed since the last update; nil without viewers.
	touched map[model.Key]struct{}
}

// New returns a Hub without objects.
func New(options Options) *Hub {
	return &Hub{
		options: options, joining: make(chan *viewer), leaving: make(chan *viewer), stopped: make(chan struct{}),
		objects: map[model.Key]view.Source{}, histories: map[model.Key]view.History{}, moved: make(chan struct{}, 1),
	}
}

// Observe implements ingest.Observer.
func (h *Hub) Observe(pass ingest.Pass) {
	now := h.options.Now().UTC()
	sources := make(map[model.Key]view.Source, len(pass.Objects))
	for key, object := range pass.Objects {
		if object.ScaledObject != nil {
			sources[key] = view.NewSource(object.ScaledObject, object.Fleet, object.Published)
		}
	}
	others := peers.Others(pass.Replicas, h.options.Replica)
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range pass.Objects {
		if source, exists := sources[key]; exists {
			h.objects[key] = source
			h.record(key, source, now)
		} else {
			delete(h.objects, key)
			delete(h.histories, key)
		}
		if h.touched != nil {
			h.touched[key] = struct{}{}
		}
	}
	h.setReplicas(others)
}

// record adds the present split of an object to its history. The history ends with the split. The caller holds the lock.
func (h *Hub) record(key model.Key, source view.Source, now time.Time) {
	before, isKnown := h.histories[key]
	point, isSplit := view.PointOf(source, now)
	switch {
	case isSplit && (isKnown || h.hasRoom()):
		h.histories[key] = before.Add(point)
	case !isSplit && isKnown && !before.Ended.IsZero() && now.Sub(before.Ended) > keepHistory:
		delete(h.histories, key)
	case !isSplit && isKnown: // The canary has ended: all requests go to one Service.
		h.histories[key] = before.End(source, now)
	}
}

// hasRoom makes room for one more history if there is none: the oldest one of the canaries that have ended is dropped.
// It reports whether there is room. The caller holds the lock.
func (h *Hub) hasRoom() bool {
	if len(h.histories) < MaxHistories {
		return true
	}
	var oldest model.Key
	ended := time.Time{}
	for key, history := range h.histories {
		if !history.Ended.IsZero() && (ended.IsZero() || history.Ended.Before(ended)) {
			oldest, ended = key, history.Ended
		}
	}
	delete(h.histories, oldest)
	return !ended.IsZero()
}

// keepHistory is how long the history of a canary that has ended remains at least.
const keepHistory = 10 * time.Minute

// setReplicas sets the other replicas. The caller holds the lock.
func (h *Hub) setReplicas(others []endpoints.Pod) {
	if slices.Equal(h.replicas, others) {
		return
	}
	h.replicas = others
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// Run serves viewers until ctx ends, and then ends their streams.
func (h *Hub) Run(ctx context.Context) error {
	defer close(h.stopped)
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-h.leaving:
			v.close()
		case v := <-h.joining:
			newSession(h).run(ctx, v)
		}
	}
}

// join adds a viewer. It returns false if the Hub has stopped or ctx ends first.
func (h *Hub) join(ctx context.Context, v *viewer) bool {
	select {
	case h.joining <- v:
		return true
	case <-h.stopped:
		return false
	case <-ctx.Done():
		return false
	}
}

// leave removes a viewer.
func (h *Hub) leave(v *viewer) {
	select {
	case h.leaving <- v:
	case <-h.stopped:
	}
}

// begin returns all objects, and collects changes from now on.
func (h *Hub) begin() map[model.Key]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = make(map[model.Key]struct{})
	keys := make(map[model.Key]struct{}, len(h.objects))
	for key := range h.objects {
		keys[key] = struct{}{}
	}
	return keys
}

// end stops the collection of changes.
func (h *Hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = nil
}

// takeTouched returns the objects that have changed since the last call.
func (h *Hub) takeTouched() map[model.Key]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	touched := h.touched
	h.touched = make(map[model.Key]struct{})
	return touched
}

// sources returns the Sources of objects; deleted ones are missing.
func (h *Hub) sources(keys []model.Key) map[model.Key]view.Source {
	h.mu.Lock()
	defer h.mu.Unlock()
	sources := make(map[model.Key]view.Source, len(keys))
	for _, key := range keys {
		if source, exists := h.objects[key]; exists {
			sources[key] = source
		}
	}
	return sources
}

// history returns the Points of an object.
func (h *Hub) history(key model.Key) []view.Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.histories[key].Points
}

// others returns the other replicas.
func (h *Hub) others() []endpoints.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.replicas
}
