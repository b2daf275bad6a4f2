package status

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// ErrGone is in the chain of a Client's error when the object no longer exists, or another object has its name.
var ErrGone = errors.New("the object is gone")

// Client is what is needed of the API server.
type Client interface {
	// ApplyStatus makes status the status of the object that has this name and this UID. An error with ErrGone says that there is none.
	ApplyStatus(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, status httpv1alpha1.HTTPScaledObjectStatus) error
	// CreateEvent stores event. That an Event of its name exists already is no error.
	CreateEvent(ctx context.Context, event *eventsv1.Event) error
}

// tracked is what the writer works from of one object.
type tracked struct {
	object *httpv1alpha1.HTTPScaledObject
	seen   Observation
	part   Part // the zero value when it is not published
}

// writer writes the status of HTTPScaledObjects. assign and wake may be called at any time; run writes.
type writer struct {
	client   Client
	instance string
	acks     func() ([]Acks, standings) // what the proxies of all replicas have taken, and for which objects that is new
	now      func() time.Time
	logger   *slog.Logger
	metrics  *metrics

	mu      sync.Mutex
	objects map[ir.Key]tracked
	fleet   Fleet
	changed standings     // the objects that changed since run last looked
	news    chan struct{} // holds one element when there may be something to write

	// What follows belongs to run, one run at a time. done is what it has last found out and done about an object, known the UIDs by name, and later are the
	// objects that have to be looked at again at some time. counted are the objects that the gauges count.
	done    map[types.UID]deed
	known   map[ir.Key]types.UID
	later   map[ir.Key]time.Time
	counted map[ir.Key]Taken
}

// newWriter returns a writer that knows no objects.
func newWriter(options Options, counted *metrics) *writer {
	return &writer{
		client: options.Client, instance: options.Replica, now: options.Now, logger: options.Logger, metrics: counted,
		objects: map[ir.Key]tracked{}, news: make(chan struct{}, 1),
	}
}

// assign takes note of what a pass has found out: the objects of which anything is new, the Parts that
// may be new, of other objects too, and the fleet.
func (w *writer) assign(objects map[ir.Key]Object, parts map[ir.Key]Part, fleet Fleet) {
	w.mu.Lock()
	for key, object := range objects {
		if object.ScaledObject == nil {
			delete(w.objects, key)
		} else {
			w.objects[key] = tracked{object.ScaledObject, object.Observation, w.objects[key].part}
		}
		w.changed.add(map[ir.Key]struct{}{key: {}})
	}
	for key, part := range parts {
		if known, is := w.objects[key]; is {
			known.part = part
			w.objects[key] = known
			w.changed.add(map[ir.Key]struct{}{key: {}})
		}
	}
	if !w.fleet.equal(fleet) {
		w.fleet, w.changed.everything = fleet, true
	}
	w.mu.Unlock()
	w.wake()
}

// take returns the objects to look at, and the fleet: those that changed, those of which the proxies have something else, and those whose time has come. Gone
// ones have no object.
func (w *writer) take(news standings, now time.Time) (map[ir.Key]tracked, Fleet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := make(map[ir.Key]tracked, len(w.changed.keys)+len(news.keys))
	if news.everything || w.changed.everything {
		maps.Copy(taken, w.objects)
		for key := range w.known {
			taken[key] = w.objects[key]
		}
	}
	for _, keys := range []map[ir.Key]struct{}{news.keys, w.changed.keys} {
		for key := range keys {
			taken[key] = w.objects[key]
		}
	}
	for key, at := range w.later {
		if !at.After(now) {
			taken[key] = w.objects[key]
		}
	}
	w.changed = standings{}
	return taken, w.fleet
}

// wake makes run look at everything again. It never blocks.
func (w *writer) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// run writes until ctx ends, beginning with the latest assignment. Two calls must not overlap.
func (w *writer) run(ctx context.Context) {
	w.done = map[types.UID]deed{} // Another replica may have written since the last time.
	w.known, w.later, w.counted = map[ir.Key]types.UID{}, map[ir.Key]time.Time{}, map[ir.Key]Taken{}
	w.mu.Lock()
	w.changed.everything = true
	w.mu.Unlock()
	defer w.metrics.forget()
	w.wake()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.news:
		case <-alarm.C:
		}
		next, pause := w.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !next.IsZero() {
			alarm.Reset(max(0, next.Sub(w.now())))
		}
	}
}

// metrics are what the writer counts.
type metrics struct {
	writes      *prometheus.CounterVec
	unacked     prometheus.Gauge
	refused     prometheus.Gauge
	unreachable prometheus.Gauge
}

// newMetrics makes the metrics and registers them.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "kedify", Subsystem: "status", Name: name, Help: help})
	}
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "kedify", Subsystem: "status", Name: "writes_total",
			Help: "Requests that wrote a status or an Event, by kind and result.",
		}, []string{"kind", "result"}),
		unacked:     gauge("unacked_objects", "HTTPScaledObjects that not every Ready proxy has taken as they are; 0 on a replica that is not elected."),
		refused:     gauge("refused_objects", "HTTPScaledObjects that a proxy refused, each of them a bug; 0 on a replica that is not elected."),
		unreachable: gauge("unreachable_replicas", "Other replicas that do not tell what their proxies have taken; 0 on a replica that is not elected."),
	}
	var failed error
	for _, collector := range []prometheus.Collector{m.writes, m.unacked, m.refused, m.unreachable} {
		failed = errors.Join(failed, registerer.Register(collector))
	}
	return m, failed
}

// count keeps the gauges up to date with what became of one object; the zero value stands for that it is gone.
func (m *metrics) count(before, after Taken) {
	m.unacked.Add(float64(toInt(after.isUnacked()) - toInt(before.isUnacked())))
	m.refused.Add(float64(toInt(after.Refusal != "") - toInt(before.Refusal != "")))
}

// isUnacked says that not every Ready proxy has the object.
func (t Taken) isUnacked() bool { return t.Proxies.Acked < t.Proxies.Ready }

// toInt is 1 for true.
func toInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// forget sets the gauges to what they are on a replica that is not elected.
func (m *metrics) forget() {
	m.unacked.Set(0)
	m.refused.Set(0)
}
