package status

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
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
	Options

	writes *prometheus.CounterVec // by kind and result
	own    *peers.Server          // tells the other replicas about this one
	peers  *peers.Peers           // are the other replicas, while this one is elected

	mu      sync.Mutex
	objects map[model.Key]*tracked // which are never changed
	fleets  map[model.Fleet][]model.Proxy
	term    *term // nil while this replica is not elected
}

// tracked is what a status is made of, but for what proxies have taken.
type tracked struct {
	object    *httpv1alpha1.HTTPScaledObject
	fleet     model.Fleet
	seen      observation.Outcome
	digest    string // of what is published, "" when nothing is
	asDesired bool   // as in Publication
}

// isCanary says whether the object shares requests between Services: somebody waits for its report.
func (t tracked) isCanary() bool {
	return t.object != nil && metav1.HasAnnotation(t.object.ObjectMeta, httpv1alpha1.AnnotationWeightedBackends)
}

// assign takes note of a pass, and of what is published of the objects in them.
func (w *writer) assign(pass observation.Pass, publications map[model.Key]Publication) {
	w.mu.Lock()
	keys := make([]model.Key, 0, len(pass.Objects))
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
func (w *writer) reconsider(news peers.Delta) {
	var keys []model.Key
	fleets := map[model.Fleet]struct{}{}
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
func (w *writer) enqueue(keys []model.Key, fleets map[model.Fleet]struct{}) {
	w.mu.Lock()
	term := w.term
	if term != nil && len(fleets) > 0 {
		for key, each := range w.objects {
			if _, is := fleets[each.fleet]; is {
				keys = append(keys, key)
			}
		}
	}
	w.mu.Unlock() // The queue asks isCanary.
	if term == nil {
		return
	}
	for _, key := range keys {
		term.queue.Add(key)
	}
}

// changedFleets are the fleets of which the proxies are others.
func changedFleets(before, now map[model.Fleet][]model.Proxy) map[model.Fleet]struct{} {
	changed := map[model.Fleet]struct{}{}
	for _, fleets := range []map[model.Fleet][]model.Proxy{before, now} {
		for fleet := range fleets {
			if !slices.EqualFunc(before[fleet], now[fleet], model.Proxy.Equal) {
				changed[fleet] = struct{}{}
			}
		}
	}
	return changed
}

// find returns what is known of an object, nothing when it is gone, and the proxies of its fleet.
func (w *writer) find(key model.Key) (tracked, []model.Proxy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if each := w.objects[key]; each != nil {
		return *each, w.fleets[each.fleet]
	}
	return tracked{}, nil
}

// taken is what the proxies of this replica and of the others have taken of an object.
func (w *writer) taken(key model.Key, each tracked, proxies []model.Proxy) (taken Taken) {
	published := Publication{Digest: each.digest, AsDesired: each.asDesired}
	w.own.Read(func(own *peers.State) {
		w.peers.Read(func(others []*peers.State) {
			taken = TakenOf(key, each.fleet, published, proxies, append(others, own))
		})
	})
	return taken
}

// count counts the objects of which the proxies have taken what is asked for; none while this replica is not elected.
func (w *writer) count(is func(Taken) bool) (count int) {
	w.mu.Lock()
	term := w.term
	w.mu.Unlock()
	if term == nil {
		return 0
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	for _, record := range term.records {
		if is(record.taken) {
			count++
		}
	}
	return count
}

// run writes until ctx ends. Two calls must not overlap.
func (w *writer) run(ctx context.Context) {
	t := newTerm(w) // Another replica may have written since the last one.
	var working sync.WaitGroup
	working.Go(func() { w.peers.Run(ctx) })
	for range parallelWrites {
		working.Go(func() { t.work(ctx) })
	}
	w.mu.Lock()
	w.term = t
	all := slices.Collect(maps.Keys(w.objects))
	w.mu.Unlock()
	w.enqueue(all, nil)
	<-ctx.Done()
	w.mu.Lock()
	w.term = nil
	w.mu.Unlock()
	t.queue.ShutDown()
	working.Wait()
}

// createEvent creates an Event. What fails is logged and not tried again: a condition says the same and stays, or it happens again, or is over.
func (w *writer) createEvent(ctx context.Context, event *eventsv1.Event) {
	err := w.write(ctx, "event", func(ctx context.Context) error { return w.Client.CreateEvent(ctx, event) })
	if err != nil {
		w.Logger.WarnContext(ctx, "cannot create the event", "namespace", event.Namespace,
			"httpScaledObject", event.Regarding.Name, "reason", event.Reason, "error", err)
	}
}

// write makes one request within its deadline and counts it.
func (w *writer) write(ctx context.Context, kind string, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	err := request(ctx)
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.writes.WithLabelValues(kind, result).Inc()
	return err
}
