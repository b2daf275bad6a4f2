package status

import (
	"context"
	"errors"
	"log/slog"
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

// assignment is what the writer works from: the last pass, and what it wants of the proxies.
type assignment struct {
	objects      []*httpv1alpha1.HTTPScaledObject
	observations map[ir.Key]Observation
	parts        map[ir.Key]Part // of every object; the zero value for one that is not published
	fleet        Fleet
}

// writer writes the status of HTTPScaledObjects. assign and wake may be called at any time; run writes.
type writer struct {
	client   Client
	instance string
	acks     func() []Acks // what the proxies of all replicas have taken
	now      func() time.Time
	logger   *slog.Logger
	metrics  *metrics

	mu     sync.Mutex
	latest *assignment
	news   chan struct{} // holds one element when there may be something to write

	// done is what run has last found out and done about an object. Only run uses it, one run at a time.
	done map[types.UID]deed
}

// assign takes note of the outcome of a pass. Nobody may change it afterwards.
func (w *writer) assign(latest *assignment) {
	w.mu.Lock()
	w.latest = latest
	w.mu.Unlock()
	w.wake()
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
		w.mu.Lock()
		latest := w.latest
		w.mu.Unlock()
		if latest == nil {
			continue
		}
		next, pause := w.round(ctx, latest)
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

// observe sets the gauges of what was found out about all objects.
func (m *metrics) observe(taken map[ir.Key]Taken) {
	unacked, refused := 0, 0
	for _, each := range taken {
		if each.Proxies.Acked < each.Proxies.Ready {
			unacked++
		}
		if each.Refusal != "" {
			refused++
		}
	}
	m.unacked.Set(float64(unacked))
	m.refused.Set(float64(refused))
}

// forget sets the gauges to what they are on a replica that is not elected.
func (m *metrics) forget() { m.observe(nil) }
