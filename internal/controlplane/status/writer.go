package status

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// ErrGone is in the chain of a Client's error if the object no longer exists or another object has its name. The API
// server answers the same if the CustomResourceDefinition has no status subresource, so the write is repeated as long
// as the object is watched.
var ErrGone = errors.New("the object is gone")

// Client writes to the API server.
type Client interface {
	// ApplyStatus sets the status of the object with this name and UID. The error wraps ErrGone if there is none.
	ApplyStatus(
		ctx context.Context, object *httpv1alpha1.HTTPScaledObject, status httpv1alpha1.HTTPScaledObjectStatus,
	) error
	// CreateEvent creates an Event. An Event of the same name that already exists is not an error.
	CreateEvent(ctx context.Context, event *eventsv1.Event) error
}

// writer tracks the objects. While this replica is the leader, it keeps their statuses up to date. It is safe for
// concurrent use.
type writer struct {
	Options

	writes *prometheus.CounterVec // by kind and result
	own    *peers.Server          // serves the ACKs of this replica's proxies to the other replicas
	peers  *peers.Peers           // the ACKs of the other replicas' proxies, while this replica is the leader

	mu         sync.Mutex
	objects    map[model.Key]*tracked // its values are immutable
	fleets     map[model.Fleet][]model.Proxy
	leadership *leadership // nil while this replica isn't the leader
}

// tracked is everything that the status of an object is computed from, except the ACKs of proxies.
type tracked struct {
	object    *httpv1alpha1.HTTPScaledObject
	fleet     model.Fleet
	outcome   ingest.Outcome
	digest    string // of the publication, "" if nothing is published
	asDesired bool   // as in Publication
}

// isCanary reports whether the object splits requests between Services, so that a Rollout waits for its report.
func (t tracked) isCanary() bool {
	return t.object != nil && metav1.HasAnnotation(t.object.ObjectMeta, httpv1alpha1.AnnotationWeightedBackends)
}

// isPublished reports whether the present version of the object is published, so that proxies can acknowledge it.
func (t tracked) isPublished() bool { return t.digest != "" && t.outcome.IsAccepted() }

// needsProxies reports whether requests of the object fail without the proxies of its fleet. They do if the Service of
// the proxies is installed. Without it, an object that neither the agent nor a router handles, such as one of the KEDA
// HTTP add-on, needs no Envoy. The requests of an object that counts those of an external Envoy may pass through that
// one only.
func (t tracked) needsProxies(isInstalled bool) bool {
	if t.digest == "" || metav1.HasAnnotation(t.object.ObjectMeta, httpv1alpha1.AnnotationExternalProxyMetricKey) {
		return false
	}
	return isInstalled || t.isCanary() || trigger.NeedsProxy(t.object)
}

// update stores the objects and proxies of a pass with the publications of the objects, and queues the affected
// objects.
func (w *writer) update(pass ingest.Pass, publications map[model.Key]Publication) {
	w.mu.Lock()
	keys := make([]model.Key, 0, len(pass.Objects))
	for key, object := range pass.Objects {
		keys = append(keys, key)
		if object.ScaledObject == nil {
			delete(w.objects, key)
			keys = w.updateSuperseded(keys, key, nil)
			continue
		}
		keys = w.updateSuperseded(keys, key, object.Superseded)
		published := publications[key]
		now := &tracked{object.ScaledObject, object.Fleet, object.Outcome, published.Digest, published.AsDesired}
		if w.TraceWeight != nil && w.leadership != nil {
			w.leadership.startWeight(key, w.objects[key], now, pass)
		}
		w.objects[key] = now
	}
	fleets := changedFleets(w.fleets, pass.Proxies)
	w.fleets = pass.Proxies
	w.mu.Unlock()
	w.enqueue(keys, fleets)
}

// updateSuperseded stores the InterceptorRoute with the name of an HTTPScaledObject, nil for none. Its key in w.objects
// is no name of an object. If it changed, updateSuperseded appends the key to keys. The caller holds the lock.
func (w *writer) updateSuperseded(
	keys []model.Key, by model.Key, route *httpv1alpha1.HTTPScaledObject,
) []model.Key {
	key := model.Key{Namespace: by.Namespace, Name: by.Name + " (" + httpv1beta1.Kind + ")"}
	if route == nil {
		if w.objects[key] == nil {
			return keys
		}
		delete(w.objects, key)
		return append(keys, key)
	}
	w.objects[key] = &tracked{object: route, outcome: ingest.Outcome{Problems: []model.Problem{{
		On: by, Reason: httpv1beta1.ReasonHTTPScaledObjectExists,
		Message: "HTTPScaledObject " + by.String() + " has the same name and is served instead: delete it, and this " +
			"object is served in the same update",
	}}}}
	return append(keys, key)
}

// enqueueChanged queues the objects that the ACKs in delta concern.
func (w *writer) enqueueChanged(delta peers.Delta) {
	var keys []model.Key
	fleets := map[model.Fleet]struct{}{}
	for key := range delta.Objects {
		keys = append(keys, key)
	}
	for _, proxy := range delta.Proxies {
		if proxy.Full || proxy.Gone {
			fleets[proxy.Fleet] = struct{}{}
			continue
		}
		for key := range proxy.Acks {
			keys = append(keys, key)
		}
	}
	w.enqueue(keys, fleets)
}

// enqueue queues objects, and all objects that fleets serve.
func (w *writer) enqueue(keys []model.Key, fleets map[model.Fleet]struct{}) {
	w.mu.Lock()
	leadership := w.leadership
	if leadership != nil && len(fleets) > 0 {
		for key, object := range w.objects {
			if _, ok := fleets[object.fleet]; ok {
				keys = append(keys, key)
			}
		}
	}
	w.mu.Unlock() // The queue calls isCanary, which takes the lock.
	if leadership == nil {
		return
	}
	for _, key := range keys {
		leadership.queue.Add(key)
	}
}

// changedFleets returns the fleets that have different proxies in before and now.
func changedFleets(before, now map[model.Fleet][]model.Proxy) map[model.Fleet]struct{} {
	changed := map[model.Fleet]struct{}{}
	for _, fleets := range []map[model.Fleet][]model.Proxy{before, now} {
		for fleet := range fleets {
			if !areSameProxies(before[fleet], now[fleet]) {
				changed[fleet] = struct{}{}
			}
		}
	}
	return changed
}

// areSameProxies reports whether two lists are equal. A pass has the same lists as the one before for all fleets without a
// change, and there may be many.
func areSameProxies(one, other []model.Proxy) bool {
	if len(one) == len(other) && (len(one) == 0 || &one[0] == &other[0]) {
		return true
	}
	return slices.EqualFunc(one, other, model.Proxy.Equal)
}

// find returns an object and the proxies of its fleet, zero values for an unknown object.
func (w *writer) find(key model.Key) (tracked, []model.Proxy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if object := w.objects[key]; object != nil {
		return *object, w.fleets[object.fleet]
	}
	return tracked{}, nil
}

// acks counts the ACKs of an object by the proxies of all replicas.
func (w *writer) acks(key model.Key, object tracked, proxies []model.Proxy) (acks Acks) {
	published := Publication{Digest: object.digest, AsDesired: object.asDesired}
	w.own.Read(func(own *peers.State) {
		w.peers.Read(func(others []*peers.State) {
			acks = CountAcks(key, object.fleet, published, proxies, append(others, own))
		})
	})
	return acks
}

// count counts the matching objects. It is 0 while this replica isn't the leader.
func (w *writer) count(matches func(*record) bool) (count int) {
	w.mu.Lock()
	leadership := w.leadership
	w.mu.Unlock()
	if leadership == nil {
		return 0
	}
	leadership.mu.Lock()
	defer leadership.mu.Unlock()
	for _, record := range leadership.records {
		if matches(record) {
			count++
		}
	}
	return count
}

// longestIncomplete returns the longest time for which a published object has not been acknowledged by every Ready
// proxy. It is 0 if all objects are, and while this replica isn't the leader.
func (w *writer) longestIncomplete() (longest time.Duration) {
	w.mu.Lock()
	leadership := w.leadership
	w.mu.Unlock()
	if leadership == nil {
		return 0
	}
	leadership.mu.Lock()
	defer leadership.mu.Unlock()
	now := time.Now()
	for _, record := range leadership.records {
		if !record.incompleteSince.IsZero() {
			longest = max(longest, now.Sub(record.incompleteSince))
		}
	}
	return longest
}

// readyProxies returns the number of Ready proxies of each fleet with published objects that need one. It is empty
// while this replica isn't the leader.
func (w *writer) readyProxies() map[model.Fleet]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := map[model.Fleet]int{}
	if w.leadership == nil {
		return ready
	}
	for _, object := range w.objects {
		if _, isKnown := ready[object.fleet]; isKnown {
			continue // one object of a fleet decides
		}
		if _, isInstalled := w.fleets[object.fleet]; object.needsProxies(isInstalled) {
			ready[object.fleet] = 0
		}
	}
	for fleet := range ready {
		for _, proxy := range w.fleets[fleet] {
			if proxy.IsReady {
				ready[fleet]++
			}
		}
	}
	return ready
}

// lead writes statuses until ctx ends. Two calls must not overlap.
func (w *writer) lead(ctx context.Context) {
	l := newLeadership(w) // A new one for each election: another replica may have written in between.
	var working sync.WaitGroup
	working.Go(func() { w.peers.Run(ctx) })
	working.Go(func() { l.giveTurns(ctx) })
	for range parallelWrites {
		working.Go(func() { l.work(ctx) })
	}
	w.mu.Lock()
	w.leadership = l
	all := slices.Collect(maps.Keys(w.objects))
	w.mu.Unlock()
	w.enqueue(all, nil)
	<-ctx.Done()
	w.mu.Lock()
	w.leadership = nil
	w.mu.Unlock()
	l.queue.ShutDown()
	l.background.ShutDown()
	working.Wait()
}

// createEvent creates an Event. A failure is logged and not retried: the condition has the same message, and a
// persisting problem produces another Event.
func (w *writer) createEvent(ctx context.Context, event *eventsv1.Event) {
	err := w.write(ctx, "event", func(ctx context.Context) error { return w.Client.CreateEvent(ctx, event) })
	if err != nil {
		w.Logger.WarnContext(ctx, "cannot create the Event", "namespace", event.Namespace,
			"httpScaledObject", event.Regarding.Name, "reason", event.Reason, "error", err)
	}
}

// write makes one request within writeDeadline and counts it.
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
