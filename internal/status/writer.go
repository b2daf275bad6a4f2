package status

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/util/workqueue"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/replicas"
)

// ErrGone is in the chain of a Client's error when the object no longer exists, or another object has
// its name. The API server answers the same where an object has no status, so that the write is tried again
// for as long as the object is watched.
var ErrGone = errors.New("the object is gone")

// Client is what is needed of the API server.
type Client interface {
	// ApplyStatus makes status the status of the object that has this name and this UID. An error with
	// ErrGone says that there is none.
	ApplyStatus(
		ctx context.Context, object *httpv1alpha1.HTTPScaledObject, status httpv1alpha1.HTTPScaledObjectStatus,
	) error
	// CreateEvent stores event. That an Event of its name exists already is no error.
	CreateEvent(ctx context.Context, event *eventsv1.Event) error
}

// writer knows the objects, and while this replica is elected it keeps their statuses up to date. It is
// safe for concurrent use.
type writer struct {
	client   Client
	instance string
	now      func() time.Time
	logger   *slog.Logger
	metrics  *metrics
	// taken tells what the proxies of all replicas have taken of an object.
	taken func(ir.Key, ir.Fleet, Publication, []ir.Proxy) Taken

	mu      sync.Mutex
	objects map[ir.Key]*tracked // which are never changed
	fleets  map[ir.Fleet][]ir.Proxy
	queue   workqueue.TypedDelayingInterface[ir.Key] // nil while this replica is not elected
}

// tracked is what a status is made of, but for what proxies have taken.
type tracked struct {
	object    *httpv1alpha1.HTTPScaledObject
	fleet     ir.Fleet
	seen      observation.Outcome
	digest    string // of what is published, "" when nothing is
	asDesired bool   // as in Publication
}

// isCanary says whether the object shares requests between Services: somebody waits for its report.
func (t tracked) isCanary() bool {
	if t.object == nil {
		return false
	}
	_, shares := t.object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	return shares
}

// newWriter returns a writer that knows no objects.
func newWriter(
	options Options, counted *metrics, taken func(ir.Key, ir.Fleet, Publication, []ir.Proxy) Taken,
) *writer {
	return &writer{
		client: options.Client, instance: options.Replica, now: options.Now, logger: options.Logger,
		metrics: counted, taken: taken, objects: map[ir.Key]*tracked{},
	}
}

// assign takes note of a pass, and of what is published of the objects in them.
func (w *writer) assign(pass observation.Pass, publications map[ir.Key]Publication) {
	w.mu.Lock()
	keys := make([]ir.Key, 0, len(pass.Objects))
	for key, object := range pass.Objects {
		keys = append(keys, key)
		if object.ScaledObject == nil {
			delete(w.objects, key)
			continue
		}
		published := publications[key]
		w.objects[key] = &tracked{
			object.ScaledObject, object.Fleet, object.Outcome, published.Digest, published.AsDesired,
		}
	}
	fleets := changedFleets(w.fleets, pass.Proxies)
	w.fleets = pass.Proxies
	w.mu.Unlock()
	w.enqueue(keys, fleets)
}

// reconsider has the objects looked at about which proxies have another answer.
func (w *writer) reconsider(news replicas.Delta) {
	var keys []ir.Key
	fleets := map[ir.Fleet]struct{}{}
	for key := range news.Objects {
		keys = append(keys, key)
	}
	for _, proxy := range news.Proxies {
		if proxy.Full || proxy.Gone {
			fleets[proxy.Fleet] = struct{}{}
			continue
		}
		for key := range proxy.Answers {
			keys = append(keys, key)
		}
	}
	w.enqueue(keys, fleets)
}

// enqueue has objects looked at, and all that are served by fleets.
func (w *writer) enqueue(keys []ir.Key, fleets map[ir.Fleet]struct{}) {
	w.mu.Lock()
	queue := w.queue
	if queue != nil && len(fleets) > 0 {
		for key, each := range w.objects {
			if _, is := fleets[each.fleet]; is {
				keys = append(keys, key)
			}
		}
	}
	w.mu.Unlock() // The queue asks isCanary.
	if queue == nil {
		return
	}
	for _, key := range keys {
		queue.Add(key)
	}
}

// changedFleets are the fleets of which the proxies are others.
func changedFleets(before, now map[ir.Fleet][]ir.Proxy) map[ir.Fleet]struct{} {
	changed := map[ir.Fleet]struct{}{}
	for _, fleets := range []map[ir.Fleet][]ir.Proxy{before, now} {
		for fleet := range fleets {
			if !slices.EqualFunc(before[fleet], now[fleet], ir.Proxy.Equal) {
				changed[fleet] = struct{}{}
			}
		}
	}
	return changed
}

// find returns what is known of an object, nothing when it is gone, and the proxies of its fleet.
func (w *writer) find(key ir.Key) (tracked, []ir.Proxy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if each := w.objects[key]; each != nil {
		return *each, w.fleets[each.fleet]
	}
	return tracked{}, nil
}

// run writes until ctx ends. Two calls must not overlap.
func (w *writer) run(ctx context.Context) {
	queue := newQueue(func(key ir.Key) bool {
		each, _ := w.find(key)
		return each.isCanary()
	})
	t := newTerm(w, queue) // Another replica may have written since the last one.
	defer w.metrics.forget()
	var working sync.WaitGroup
	for range parallelWrites {
		working.Go(func() { t.work(ctx) })
	}
	w.mu.Lock()
	w.queue = queue
	all := make([]ir.Key, 0, len(w.objects))
	for key := range w.objects {
		all = append(all, key)
	}
	w.mu.Unlock()
	w.enqueue(all, nil)
	<-ctx.Done()
	w.mu.Lock()
	w.queue = nil
	w.mu.Unlock()
	queue.ShutDown()
	working.Wait()
}
